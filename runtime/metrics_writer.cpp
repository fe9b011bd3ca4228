// The numbers of a run over time; see metrics_writer.hpp.
#include "runtime/metrics_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/trainer.hpp"

namespace millrace {
namespace {

/// The complete lines of a file whose step is at most `step`; `step_of` reads a line's step.
template <class StepOf>
std::string lines_up_to(const std::filesystem::path& path, std::uint64_t step, StepOf step_of) {
  std::ifstream file(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // no newline: torn
    const std::optional<std::uint64_t> at = step_of(line);
    if (at && *at <= step) kept += line + '\n';
  }
  return kept;
}

std::optional<std::uint64_t> step_of_json(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return std::nullopt;
  return json["step"].get<std::uint64_t>();
}

std::optional<std::uint64_t> step_of_csv(const std::string& line) {
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return step;
}

std::string header(const std::vector<std::string>& columns) {
  std::string text = "step,wall_s";
  for (const std::string& column : columns) text += "," + column;
  return text + "\n";
}

void prepare(const RunFolder& folder, const std::vector<std::string>& columns,
             std::optional<std::uint64_t> resumed_step) {
  if (!resumed_step) return;
  const std::string json = lines_up_to(folder.metrics_jsonl(), *resumed_step, step_of_json);
  const std::string csv = lines_up_to(folder.metrics_csv(), *resumed_step, step_of_csv);
  write_text_atomically(folder.metrics_jsonl(), json);
  write_text_atomically(folder.metrics_csv(), header(columns) + csv);
}

OutputFile::Mode mode(std::optional<std::uint64_t> resumed_step) {
  return resumed_step ? OutputFile::Mode::kAppend : OutputFile::Mode::kTruncate;
}

}  // namespace

MetricsWriter::MetricsWriter(const RunFolder& folder, std::vector<std::string> columns,
                             std::optional<std::uint64_t> resumed_step)
    : columns_((prepare(folder, columns, resumed_step), std::move(columns))),
      jsonl_(folder.metrics_jsonl(), mode(resumed_step)),
      csv_(folder.metrics_csv(), mode(resumed_step)),
      tensorboard_(folder.path(), resumed_step),
      last_flush_s_(steady_seconds()) {
  if (!resumed_step) csv_.buffer() += header(columns_);
}

void MetricsWriter::write(const MetricsRow& row) {
  const auto number = [](double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); };
  std::string& json = jsonl_.buffer();
  json += fmt::format("{{\"step\":{},\"wall_s\":{}", row.step, row.wall_s);
  for (const auto& [name, value] : row.values) {
    const std::string text = number(value);
    json += fmt::format(",\"{}\":{}", name, text.empty() ? "null" : text);
  }
  json += "}\n";
  std::string& csv = csv_.buffer();
  csv += fmt::format("{},{}", row.step, row.wall_s);
  for (const std::string& column : columns_) {
    const auto found = std::find_if(row.values.begin(), row.values.end(),
                                    [&](const auto& value) { return value.first == column; });
    csv += ',';
    if (found != row.values.end()) csv += number(found->second);
  }
  csv += '\n';
  for (const auto& [name, value] : row.values) tensorboard_.scalar(name, row.step, value);
  const double now = steady_seconds();
  if (now - last_flush_s_ > 0.5) {
    last_flush_s_ = now;
    flush();
  }
}

void MetricsWriter::flush() {
  jsonl_.flush();
  csv_.flush();
  tensorboard_.flush();
}

std::vector<CurvePoint> read_metric(const std::filesystem::path& metrics_jsonl, std::string_view name) {
  std::ifstream file(metrics_jsonl, std::ios::binary);
  if (!file) throw UserError(fmt::format("{} cannot be read; a run folder has one.", metrics_jsonl.string()));
  std::vector<CurvePoint> points;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) {
      if (file.eof()) break;
      throw UserError(
          fmt::format("{}:{}: this line is no JSON object with a step.", metrics_jsonl.string(), number));
    }
    const auto found = json.find(std::string(name));
    if (found != json.end() && found->is_number()) {
      points.push_back({json["step"].get<std::uint64_t>(), found->get<double>()});
    }
  }
  return points;
}

}  // namespace millrace
