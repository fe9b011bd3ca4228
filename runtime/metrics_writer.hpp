// The numbers of a run over time: metrics.jsonl, metrics.csv and TensorBoard events.
//
// A row is written to all three at once. Files are flushed at least once a second and at the end, so a killed run
// keeps all but its last second. After a resume the files hold each step once.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/output_file.hpp"
#include "runtime/run_folder.hpp"
#include "runtime/tensorboard.hpp"

namespace millrace {

struct MetricsRow {
  std::uint64_t step = 0;  ///< environment steps
  double wall_s = 0.0;
  std::vector<std::pair<std::string_view, double>> values;
};

class MetricsWriter {
 public:
  /// `columns`: the names that rows may have, in the CSV's order. With `resumed_step`, rows behind that step are
  /// dropped first. Throws RunError.
  MetricsWriter(const RunFolder& folder, std::vector<std::string> columns, std::optional<std::uint64_t> resumed_step);

  /// Throws RunError (disk full). A value that is not finite is null in JSON and empty in CSV.
  void write(const MetricsRow& row);
  void flush();

 private:
  std::vector<std::string> columns_;
  OutputFile jsonl_, csv_;
  TensorboardWriter tensorboard_;
  double last_flush_s_ = 0.0;
};

/// A point of a learning curve.
struct CurvePoint {
  std::uint64_t step = 0;
  double value = 0.0;
};

/// All finite values of `name` in a metrics.jsonl, in order; a torn last line is left out. Throws UserError if the file
/// cannot be read, or another line is no JSON object.
[[nodiscard]] std::vector<CurvePoint> read_metric(const std::filesystem::path& metrics_jsonl, std::string_view name);

}  // namespace millrace
