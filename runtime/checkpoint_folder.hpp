// The checkpoints of a run on disk: their names, and how to find the one that is meant.
//
// A run folder has `checkpoints/`, with the last few as `step_%012llu.safetensors` and the best by score as
// `best.safetensors`. Temporary files start with a dot.
//
// Thread safety: reads only, except for remove_stale_temporaries; a writer may work in the folder meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint.hpp"

namespace millrace {

/// Removes temporary files that writers of `folder` left when they were killed; those of living writers, of
/// any process, stay. Returns how many. Never throws for a file that it cannot remove.
std::size_t remove_stale_temporaries(const std::filesystem::path& folder);

/// "step_000000001000.safetensors"; the name sorts by step.
[[nodiscard]] std::string checkpoint_file_name(std::uint64_t step);
inline constexpr std::string_view kBestCheckpointName = "best.safetensors";

/// A file of a run by its name only, unread.
struct CheckpointFile {
  std::filesystem::path path;
  std::uint64_t step = 0;
};
/// The files with a name of checkpoint_file_name in `folder`, lowest step first; none if there is no folder.
/// Throws UserError if the folder cannot be listed.
[[nodiscard]] std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::filesystem::path path;
  Checkpoint checkpoint;
};
struct SkippedCheckpoint {
  std::filesystem::path path;
  std::string reason;  // one sentence that names the file
};

/// The checkpoint of the highest step that reads as valid; if none of them does, the best one. nullopt if
/// there is none, or no such folder. What was passed over, newest first, is appended to `skipped`. Throws
/// UserError if the folder cannot be listed.
[[nodiscard]] std::optional<FoundCheckpoint> find_latest_checkpoint(
    const std::filesystem::path& folder, std::vector<SkippedCheckpoint>* skipped = nullptr);

/// The checkpoint that a person means: a file, or the latest valid one of a checkpoints folder or of a run
/// folder (with `checkpoints/` in it). Throws UserError if there is none; `skipped` as above.
[[nodiscard]] FoundCheckpoint resolve_checkpoint(const std::filesystem::path& run_or_file,
                                                 std::vector<SkippedCheckpoint>* skipped = nullptr);

}  // namespace millrace
