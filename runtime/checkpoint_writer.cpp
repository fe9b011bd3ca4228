#include "runtime/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::optional<T> number_in(const Checkpoint& checkpoint, const std::string& key) {
  const auto at = checkpoint.metadata().find(key);
  if (at == checkpoint.metadata().end()) return std::nullopt;
  const std::string& text = at->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Blocks every signal on this thread while it lives, so that a thread started meanwhile takes none: they
/// belong to the thread that handles interruptions.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_ = {};
};

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path folder, CheckpointWriterOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  if (options_.keep_last == 0) throw std::invalid_argument("a checkpoint writer keeps at least one file");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw RunError(fmt::format("cannot make the folder {}: {}.", folder_.string(), error.message()));
  take_stock();
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (failure_) fmt::print(stderr, "{}\n", *failure_);
}

void CheckpointWriter::take_stock() {
  remove_stale_temporaries(folder_);
  for (CheckpointFile& file : list_checkpoints(folder_)) {
    const bool abandoned = options_.resumed_step && file.step > *options_.resumed_step;
    (abandoned ? abandoned_ : files_).push_back(std::move(file));
  }
  if (!options_.keep_best) return;
  std::error_code ignored;
  const fs::path path = folder_ / kBestCheckpointName;
  if (!fs::exists(path, ignored)) return;
  try {
    const Checkpoint checkpoint = read_checkpoint(path);
    const auto step = number_in<std::uint64_t>(checkpoint, "step");
    const auto score = number_in<double>(checkpoint, "score");
    if (step && score) best_ = Best{*step, *score};
  } catch (const UserError&) {
    // A damaged best checkpoint is worth nothing: the next score replaces it.
  }
}

void CheckpointWriter::submit(Checkpoint&& checkpoint, std::uint64_t step, std::optional<double> score,
                              Keep keep) {
  if (score && std::isnan(*score)) score.reset();
  checkpoint.set_metadata("step", fmt::to_string(step));
  if (score) checkpoint.set_metadata("score", fmt::format("{}", *score));
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(checkpoint), step, score, keep});
    drop_superseded();
  }
  wake_.notify_one();
}

/// Of those waiting stay: the newest, the required ones, and the first of the highest score if that would
/// become the best.
void CheckpointWriter::drop_superseded() {
  std::optional<double> highest = writing_score_;
  if (best_ && (!highest || best_->score > *highest)) highest = best_->score;
  const Submission* leader = nullptr;
  for (const Submission& submission : waiting_) {
    if (!options_.keep_best || !submission.score) continue;
    if (highest && *submission.score <= *highest) continue;
    highest = submission.score;
    leader = &submission;
  }
  std::deque<Submission> kept;
  for (Submission& submission : waiting_) {
    if (submission.keep == Keep::kAlways || &submission == leader || &submission == &waiting_.back()) {
      kept.push_back(std::move(submission));
    }
  }
  waiting_ = std::move(kept);
}

void CheckpointWriter::flush() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return waiting_.empty() && !writing_; });
  }
  throw_if_failed();
}

void CheckpointWriter::throw_if_failed() {
  std::optional<std::string> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, std::nullopt);
  }
  if (failure) throw RunError(fmt::format("{} {}", *failure, last_good_sentence()));
}

std::string CheckpointWriter::last_good_sentence() const {
  if (const auto path = last_written()) return fmt::format("The last good checkpoint is {}.", path->string());
  try {
    if (const auto found = find_latest_checkpoint(folder_)) {
      return fmt::format("The last good checkpoint is {}.", found->path.string());
    }
  } catch (const UserError&) {
    // A folder that cannot be listed has none to offer.
  }
  return "There is no good checkpoint yet.";
}

std::optional<fs::path> CheckpointWriter::last_written() const {
  const std::lock_guard lock(mutex_);
  return last_written_;
}

std::optional<CheckpointWriter::Best> CheckpointWriter::best() const {
  const std::lock_guard lock(mutex_);
  return best_;
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Submission submission = std::move(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    writing_score_ = submission.score;
    lock.unlock();
    std::optional<std::string> failure = try_write(std::move(submission));
    lock.lock();
    if (failure && !failure_) failure_ = std::move(failure);
    writing_ = false;
    writing_score_.reset();
    if (waiting_.empty()) idle_.notify_all();
  }
}

std::optional<std::string> CheckpointWriter::try_write(Submission submission) {
  try {
    write(submission);
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::nullopt;
}

void CheckpointWriter::write(const Submission& submission) {
  const fs::path path = folder_ / checkpoint_file_name(submission.step);
  write_checkpoint(submission.checkpoint, path);
  for (auto* list : {&files_, &abandoned_}) {
    std::erase_if(*list, [&](const CheckpointFile& file) { return file.path == path; });
  }
  files_.push_back({path, submission.step});
  std::optional<Best> leader;
  {
    const std::lock_guard lock(mutex_);
    last_written_ = path;
    leader = best_;
  }
  if (options_.keep_best && submission.score && (!leader || *submission.score > leader->score)) {
    link_checkpoint(path, submission.checkpoint, folder_ / kBestCheckpointName);
    const std::lock_guard lock(mutex_);
    best_ = Best{submission.step, *submission.score};
  }
  remove_old_files();
  if (options_.on_written) options_.on_written(path, submission.step);
}

/// Only after a write, so the newest file is durable, and it stays.
void CheckpointWriter::remove_old_files() {
  std::vector<CheckpointFile> old = std::exchange(abandoned_, {});
  const std::size_t excess = files_.size() - std::min(files_.size(), options_.keep_last);
  const auto first_kept = files_.begin() + static_cast<std::ptrdiff_t>(excess);
  old.insert(old.end(), files_.begin(), first_kept);
  files_.erase(files_.begin(), first_kept);
  for (const CheckpointFile& file : old) {
    std::error_code error;
    fs::remove(file.path, error);
    if (error) throw RunError(fmt::format("cannot remove {}: {}.", file.path.string(), error.message()));
  }
}

}  // namespace millrace
