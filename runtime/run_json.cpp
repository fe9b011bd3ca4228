// Summaries as JSON; see run.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/run.hpp"
#include "runtime/seed_statistics.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::kDone:
      return "done";
    case Ending::kStopped:
      return "stopped";
    case Ending::kInterrupted:
      return "interrupted";
  }
  return "done";
}

Json object(const RunSummary& s) {
  Json json;
  json["run_dir"] = s.run_dir;
  json["seed"] = s.seed;
  json["env_id"] = s.env_id;
  json["num_envs"] = s.num_envs;
  json["device"] = s.device;
  json["threads"] = s.threads;
  json["isa"] = s.isa;
  json["steps"] = s.steps;
  json["updates"] = s.updates;
  json["wall_s"] = s.wall_s;
  json["train_s"] = s.train_s;
  json["steps_per_s"] = s.steps_per_s;
  json["greedy_return_mean"] = s.greedy_return_mean;
  json["greedy_return_std"] = s.greedy_return_std;
  json["greedy_episodes"] = s.greedy_episodes;
  json["first_step_at_threshold"] = s.first_step_at_threshold ? Json(*s.first_step_at_threshold) : Json(nullptr);
  json["seconds_at_threshold"] = s.seconds_at_threshold ? Json(*s.seconds_at_threshold) : Json(nullptr);
  json["quarantined"] = s.quarantined;
  json["digest"] = s.digest;
  json["ending"] = name_of(s.ending);
  json["checkpoint"] = s.checkpoint;
  return json;
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_json(const RunSummary& summary) { return text_of(object(summary)); }

std::string to_json(const std::vector<RunSummary>& summaries) {
  Json json;
  json["runs"] = Json::array();
  std::vector<double> returns;
  for (const RunSummary& summary : summaries) {
    json["runs"].push_back(object(summary));
    returns.push_back(summary.greedy_return_mean);
  }
  const Interval interval = bootstrap_interval95(returns);
  json["iqm"] = interquartile_mean(returns);
  json["ci95"] = {interval.low, interval.high};
  return text_of(json);
}

std::string to_text(const std::vector<RunSummary>& summaries) {
  std::vector<double> returns;
  for (const RunSummary& summary : summaries) returns.push_back(summary.greedy_return_mean);
  const Interval interval = bootstrap_interval95(returns);
  const auto [lowest, highest] = std::minmax_element(returns.begin(), returns.end());
  return fmt::format("{} seeds: interquartile mean {:.1f} [{:.1f}, {:.1f}], lowest {:.1f}, highest {:.1f}",
                     returns.size(), interquartile_mean(returns), interval.low, interval.high, *lowest, *highest);
}

std::string to_json(const EvaluationSummary& summary) {
  Json json;
  json["checkpoint"] = summary.checkpoint;
  json["env_id"] = summary.env_id;
  json["seed"] = summary.seed;
  json["steps"] = summary.steps;
  json["greedy_return_mean"] = summary.result.return_mean;
  json["greedy_return_std"] = summary.result.return_std;
  json["greedy_episodes"] = summary.result.episodes;
  json["greedy_length_mean"] = summary.result.length_mean;
  return text_of(json);
}

}  // namespace millrace
