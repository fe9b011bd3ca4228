// Files that a run writes: an append-only file with its own buffer, and whole texts that appear atomically.
// A failure (disk full, quota, read-only) is a RunError that names the path and the system's reason.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace millrace {

/// An append-only file. Text is gathered in memory until `flush`, which hands it to the operating system in
/// one call; it then survives the end of this process, by whatever signal.
class OutputFile {
 public:
  enum class Mode {
    kTruncate,  // a new file, or the old one emptied
    kAppend,    // a new file, or behind the old one's end
    kCreate,    // must not exist yet
  };

  /// Throws RunError if the file cannot be opened.
  OutputFile(std::filesystem::path path, Mode mode);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  /// Writes what is still gathered; a failure is silent, so call `flush` first where it matters.
  ~OutputFile();

  /// The text gathered so far; append to it.
  [[nodiscard]] std::string& buffer() { return buffer_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Throws RunError. What was not written stays gathered, so a later call goes on where this one stopped.
  void flush();

  /// Waits until the device has what was flushed. Throws RunError.
  void sync();

  /// Flushes and closes; some file systems report a full disk only here. Throws RunError.
  void close();

 private:
  std::filesystem::path path_;
  std::string buffer_;
  int descriptor_ = -1;
};

/// Writes `text` to `path` so that a reader finds the old content or the new, whole, at any moment and also
/// after a crash of the machine: temporary file in the same folder, fsync, rename. Throws RunError naming
/// path and reason; nothing half-written is left behind.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace millrace
