// The numbers of a run over time: metrics.jsonl, metrics.csv and TensorBoard events.
//
//   metrics.jsonl  {"step":32000,"wall_s":0.41,"charts/SPS":1250000,"losses/td_loss":null}   null: not finite
//   metrics.csv    step,wall_s and a fixed list of columns; an empty cell: not in this row, or not finite
//
// The CSV follows from the JSON lines. Rows go to the operating system at once, in a burst 20 times a second,
// and from there survive any end of the process; after a resume the files hold each row once. Whoever
// publishes a checkpoint flushes before, so that no row up to its step can be missing.
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

/// REQUIRES: names are distinct, none is "step" or "wall_s", and they hold no quote, comma, backslash or
/// control character. `wall_s` is finite.
struct MetricsRow {
  std::uint64_t step = 0;  ///< environment steps
  double wall_s = 0.0;
  std::vector<std::pair<std::string_view, double>> values;
};

class MetricsWriter {
 public:
  /// `columns`: the CSV's columns behind step and wall_s; a name that is not among them goes to the other two
  /// only. With `resumed_step`, rows behind that step and a torn last line are dropped first. Throws
  /// RunError.
  MetricsWriter(const RunFolder& folder, std::vector<std::string> columns,
                std::optional<std::uint64_t> resumed_step);

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

/// All finite values of `name` in a metrics.jsonl, in order; a torn last line is left out. Throws UserError
/// if the file cannot be read, another line is no JSON object with a step, or the value is neither a number
/// nor null.
[[nodiscard]] std::vector<CurvePoint> read_metric(const std::filesystem::path& metrics_jsonl,
                                                  std::string_view name);

}  // namespace millrace
