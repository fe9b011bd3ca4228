#include "runtime/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step_";

/// The step in a name of checkpoint_file_name; nullopt for any other name.
std::optional<std::uint64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || checkpoint_file_name(step) != name) return std::nullopt;
  return step;
}

std::string sentence_about_none(const fs::path& folder, const std::vector<SkippedCheckpoint>& skipped) {
  if (skipped.empty()) return fmt::format("there is no checkpoint in {}.", folder.string());
  return fmt::format("there is no valid checkpoint in {}; the newest of {}: {}", folder.string(),
                     skipped.size(), skipped.front().reason);
}

}  // namespace

std::string checkpoint_file_name(std::uint64_t step) {
  return fmt::format("{}{:012}.safetensors", kStepPrefix, step);
}

std::vector<CheckpointFile> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointFile> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto step = step_of(at->path().filename().string())) files.push_back({at->path(), *step});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw UserError(fmt::format("cannot list the checkpoints in {}: {}.", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.step < b.step; });
  return files;
}

std::optional<FoundCheckpoint> find_latest_checkpoint(const fs::path& folder,
                                                      std::vector<SkippedCheckpoint>* skipped) {
  std::vector<fs::path> candidates;
  for (CheckpointFile& file : list_checkpoints(folder)) candidates.push_back(std::move(file.path));
  std::reverse(candidates.begin(), candidates.end());
  std::error_code ignored;
  if (const fs::path best = folder / kBestCheckpointName; fs::exists(best, ignored))
    candidates.push_back(best);
  for (fs::path& path : candidates) {
    try {
      Checkpoint checkpoint = read_checkpoint(path);
      return FoundCheckpoint{std::move(path), std::move(checkpoint)};
    } catch (const UserError& error) {
      if (skipped != nullptr) skipped->push_back({std::move(path), error.what()});
    }
  }
  return std::nullopt;
}

FoundCheckpoint resolve_checkpoint(const fs::path& run_or_file, std::vector<SkippedCheckpoint>* skipped) {
  std::error_code ignored;
  if (!fs::is_directory(run_or_file, ignored)) return {run_or_file, read_checkpoint(run_or_file)};
  const fs::path inner = run_or_file / "checkpoints";
  const fs::path& folder = fs::is_directory(inner, ignored) ? inner : run_or_file;
  std::vector<SkippedCheckpoint> passed_over;
  std::optional<FoundCheckpoint> found = find_latest_checkpoint(folder, &passed_over);
  if (!found) throw UserError(sentence_about_none(folder, passed_over));
  if (skipped != nullptr) skipped->insert(skipped->end(), passed_over.begin(), passed_over.end());
  return std::move(*found);
}

}  // namespace millrace
