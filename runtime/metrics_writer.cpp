// The numbers of a run over time; see metrics_writer.hpp.
#include "runtime/metrics_writer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/trainer.hpp"

namespace millrace {
namespace {

/// Between two flushes of a burst of rows: three system calls 20 times a second cost nothing that can be
/// measured.
constexpr double kFlushSeconds = 0.05;

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

std::string header(const std::vector<std::string>& columns) {
  std::string text = "step,wall_s";
  for (const std::string& column : columns) text += "," + column;
  return text + "\n";
}

/// `value_of` gives a column's value, or nothing.
template <class ValueOf>
void append_csv(std::string& csv, std::uint64_t step, double wall_s, const std::vector<std::string>& columns,
                ValueOf value_of) {
  csv += fmt::format("{},{}", step, wall_s);
  for (const std::string& column : columns) {
    csv += ',';
    if (const std::optional<double> value = value_of(column)) csv += number(*value);
  }
  csv += '\n';
}

bool is_row(const nlohmann::json& json) {
  return json.is_object() && json.contains("step") && json["step"].is_number_unsigned() &&
         json.contains("wall_s") && json["wall_s"].is_number();
}

/// Drops rows behind `step` and what is not a whole row, and makes the CSV anew from the rest.
void rewrite(const RunFolder& folder, const std::vector<std::string>& columns, std::uint64_t step) {
  std::ifstream file(folder.metrics_jsonl(), std::ios::binary);
  if (!file && std::filesystem::exists(folder.metrics_jsonl())) {
    throw RunError(
        fmt::format("cannot read {}, whose rows the run would go on with", folder.metrics_jsonl().string()));
  }
  std::string kept;
  std::string csv = header(columns);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!is_row(json) || json["step"].get<std::uint64_t>() > step) continue;
    kept += line + '\n';
    append_csv(csv, json["step"].get<std::uint64_t>(), json["wall_s"].get<double>(), columns,
               [&](const std::string& column) -> std::optional<double> {
                 const auto found = json.find(column);
                 if (found == json.end() || !found->is_number()) return std::nullopt;
                 return found->get<double>();
               });
  }
  write_text_atomically(folder.metrics_jsonl(), kept);
  write_text_atomically(folder.metrics_csv(), csv);
}

/// Comes before the files are opened to append.
std::vector<std::string> prepared(const RunFolder& folder, std::vector<std::string> columns,
                                  std::optional<std::uint64_t> resumed_step) {
  if (resumed_step) rewrite(folder, columns, *resumed_step);
  return columns;
}

OutputFile::Mode mode(std::optional<std::uint64_t> resumed_step) {
  return resumed_step ? OutputFile::Mode::kAppend : OutputFile::Mode::kTruncate;
}

}  // namespace

MetricsWriter::MetricsWriter(const RunFolder& folder, std::vector<std::string> columns,
                             std::optional<std::uint64_t> resumed_step)
    : columns_(prepared(folder, std::move(columns), resumed_step)),
      jsonl_(folder.metrics_jsonl(), mode(resumed_step)),
      csv_(folder.metrics_csv(), mode(resumed_step)),
      tensorboard_(folder.path(), resumed_step),
      last_flush_s_(steady_seconds()) {
  if (!resumed_step) csv_.buffer() += header(columns_);
  flush();
}

void MetricsWriter::write(const MetricsRow& row) {
  std::string& json = jsonl_.buffer();
  json += fmt::format("{{\"step\":{},\"wall_s\":{}", row.step, row.wall_s);
  for (const auto& [name, value] : row.values) {
    json += fmt::format(",\"{}\":{}", name, std::isfinite(value) ? number(value) : "null");
  }
  json += "}\n";
  append_csv(csv_.buffer(), row.step, row.wall_s, columns_,
             [&](const std::string& column) -> std::optional<double> {
               for (const auto& [name, value] : row.values) {
                 if (name == column) return value;
               }
               return std::nullopt;
             });
  for (const auto& [name, value] : row.values) tensorboard_.scalar(name, row.step, value);
  if (steady_seconds() - last_flush_s_ >= kFlushSeconds) flush();
}

void MetricsWriter::flush() {
  last_flush_s_ = steady_seconds();
  jsonl_.flush();
  csv_.flush();
  tensorboard_.flush();
}

std::vector<CurvePoint> read_metric(const std::filesystem::path& metrics_jsonl, std::string_view name) {
  std::ifstream file(metrics_jsonl, std::ios::binary);
  if (!file) throw UserError(fmt::format("{} cannot be read; a run folder has one.", metrics_jsonl.string()));
  std::vector<CurvePoint> points;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!is_row(json)) {
      if (file.eof()) break;  // no newline: torn
      throw UserError(fmt::format("{}:{}: this line is no JSON object with step and wall_s.",
                                  metrics_jsonl.string(), line_number));
    }
    const auto found = json.find(std::string(name));
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number()) {
      throw UserError(
          fmt::format("{}:{}: {} is neither a number nor null.", metrics_jsonl.string(), line_number, name));
    }
    points.push_back({json["step"].get<std::uint64_t>(), found->get<double>()});
  }
  return points;
}

}  // namespace millrace
