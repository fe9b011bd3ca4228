// Checkpoint files: what is written reads back equal; everything else is refused with a sentence; a failed
// write leaves no trace.
#include "runtime/checkpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "checkpoint_samples.hpp"
#include "runtime/checkpoint_folder.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

using test::bytes_of_file;
using test::expect_contains;
using test::make_file;
using test::message_of;
using test::names_in;
using test::parse_text;
using test::sample_checkpoint;
using test::TemporaryFolder;
namespace fs = std::filesystem;

std::string bytes_of(const Checkpoint& checkpoint) {
  const TemporaryFolder folder;
  write_checkpoint(checkpoint, folder / "a.safetensors");
  return bytes_of_file(folder / "a.safetensors");
}

std::string refusal(const std::string& bytes) {
  return message_of<UserError>([&] { (void)parse_text(bytes); });
}

std::uint64_t header_length(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length;
}

/// A file with this header and data, whatever they are.
std::string file_of(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

/// The file's checksum by its definition: of all bytes, its own digits as zeros.
std::string checksum_by_definition(std::string bytes) {
  const std::string field = "\"checksum\":\"";
  bytes.replace(bytes.find(field) + field.size(), 32, std::string(32, '0'));
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits;
}

TEST(Checkpoint, ReadsBackEqual) {
  const TemporaryFolder folder;
  for (const std::uint64_t scale : {0, 1, 5, 31, 1000, 100'003}) {
    const Checkpoint written = sample_checkpoint(scale, scale);
    write_checkpoint(written, folder / "a.safetensors");
    const Checkpoint read = read_checkpoint(folder / "a.safetensors");
    EXPECT_TRUE(read == written) << scale;
    EXPECT_EQ(read.origin(), (folder / "a.safetensors").string());
    EXPECT_EQ(read.data_bytes(), written.data_bytes());
  }
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"a.safetensors"});
  EXPECT_TRUE(parse_text(bytes_of(Checkpoint())) == Checkpoint());
}

TEST(Checkpoint, TheFileHasTheFormatsShape) {
  const std::string bytes = bytes_of(sample_checkpoint(1, 7));
  const std::uint64_t length = header_length(bytes);
  ASSERT_LT(8 + length, bytes.size());
  EXPECT_EQ((8 + length) % 64, 0u);
  const auto header = nlohmann::ordered_json::parse(bytes.substr(8, length));
  const auto& metadata = header.at("__metadata__");
  EXPECT_EQ(metadata.at("format"), "millrace-checkpoint");
  EXPECT_EQ(metadata.at("format_version"), "1");
  EXPECT_EQ(metadata.at("checksum"), checksum_by_definition(bytes));
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t begin = tensor.at("data_offsets").at(0);
    const std::uint64_t end = tensor.at("data_offsets").at(1);
    const std::size_t width = element_bytes(*tensor_type_named(std::string(tensor.at("dtype"))));
    EXPECT_EQ((8 + length + begin) % width, 0u) << name;
    sum += end - begin;
    if (begin != end) ranges[begin] = end;
  }
  EXPECT_EQ(8 + length + sum, bytes.size());
  for (std::uint64_t reached = 0; const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, reached);
    reached = end;
  }
}

TEST(Checkpoint, GetNamesWhatWasFoundAndExpected) {
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  const float values[] = {1, 2, 3, 4, 5, 6};
  checkpoint.put<float>("w", {2, 3}, values);
  checkpoint.put<std::uint64_t>("steps", 7);
  checkpoint.set_metadata("env_id", "CartPole-v1");
  expect_contains(message_of<UserError>([&] { (void)checkpoint.get<float>("v"); }),
                  "the checkpoint has no tensor");
  write_checkpoint(checkpoint, folder / "a.safetensors");
  const Checkpoint read = read_checkpoint(folder / "a.safetensors");
  const auto got = read.get<float>("w", {2, 3});
  EXPECT_TRUE(std::equal(got.begin(), got.end(), std::begin(values), std::end(values)));
  EXPECT_EQ(read.get<float>("w").size(), 6u);
  EXPECT_EQ(read.get_scalar<std::uint64_t>("steps"), 7u);
  EXPECT_EQ(read.metadata("env_id"), "CartPole-v1");
  const std::string file = (folder / "a.safetensors").string();
  EXPECT_EQ(message_of<UserError>([&] {
              (void)read.get<float>("w", {3, 2});
            }),
            file + ": tensor \"w\" is F32 of shape [2, 3], but F32 of shape [3, 2] is expected.");
  EXPECT_EQ(message_of<UserError>([&] {
              (void)read.get<double>("w", {2, 3});
            }),
            file + ": tensor \"w\" is F32 of shape [2, 3], but F64 of shape [2, 3] is expected.");
  EXPECT_EQ(message_of<UserError>([&] { (void)read.get<std::int32_t>("w"); }),
            file + ": tensor \"w\" is F32 of shape [2, 3], but I32 is expected.");
  EXPECT_EQ(message_of<UserError>([&] { (void)read.get_scalar<float>("bias"); }),
            file + " has no tensor \"bias\", where F32 of shape [] is expected.");
  EXPECT_EQ(message_of<UserError>([&] { (void)read.metadata("seed"); }), file + " has no metadata \"seed\".");
}

TEST(Checkpoint, RefusesWhatTheFormatCannotHold) {
  Checkpoint checkpoint;
  checkpoint.put<float>("w", 1.0f);
  const float values[] = {1, 2};
  EXPECT_THROW(checkpoint.put<float>("w", 2.0f), std::invalid_argument);
  EXPECT_THROW(checkpoint.put<float>("", 2.0f), std::invalid_argument);
  EXPECT_THROW(checkpoint.put<float>("__metadata__", 2.0f), std::invalid_argument);
  EXPECT_THROW(checkpoint.put<float>("\xff", 2.0f), std::invalid_argument);
  EXPECT_THROW(checkpoint.put<float>("v", {3}, values), std::invalid_argument);
  EXPECT_THROW(checkpoint.add<float>("v", {1ull << 40, 1ull << 40}), std::invalid_argument);
  EXPECT_THROW(checkpoint.add<float>("v", TensorShape(17, 1)), std::invalid_argument);
  EXPECT_THROW(checkpoint.set_metadata("checksum", "x"), std::invalid_argument);
  EXPECT_THROW(checkpoint.set_metadata("format", "x"), std::invalid_argument);
  EXPECT_THROW(checkpoint.set_metadata("format_version", "x"), std::invalid_argument);
  EXPECT_THROW(checkpoint.set_metadata("x", "\xc3"), std::invalid_argument);
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_TRUE(checkpoint.metadata().empty());
}

TEST(Checkpoint, AnyFlippedBitIsRefused) {
  std::string bytes = bytes_of(sample_checkpoint(2));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      EXPECT_THROW((void)parse_text(bytes), UserError) << "byte " << at << " mask " << mask;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
    }
  }
  (void)parse_text(bytes);  // whole again
}

TEST(Checkpoint, RandomFlipsInALargeFileAreRefused) {
  std::string bytes = bytes_of(sample_checkpoint(3, 50'001));
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::size_t at = random() % bytes.size();
    const int mask = 1 << random() % 8;
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
    expect_contains(refusal(bytes), "memory ");
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
  }
  (void)parse_text(bytes);
}

TEST(Checkpoint, TruncatedAndLengthenedFilesAreRefused) {
  const std::string bytes = bytes_of(sample_checkpoint(5));
  EXPECT_EQ(refusal(""), "memory is empty.");
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    expect_contains(refusal(bytes.substr(0, size)), "memory is truncated");
  }
  for (const std::size_t more : {1, 8, 64, 5000}) {
    SCOPED_TRACE(more);
    expect_contains(refusal(bytes + std::string(more, '\0')), "bytes follow the last tensor");
  }
}

TEST(Checkpoint, ForeignFilesAreRefused) {
  const std::string tensor = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_contains(refusal(file_of("{" + tensor + "}", "abcd")),
                  "is a safetensors file but not a Millrace checkpoint");
  expect_contains(refusal(file_of(R"({"__metadata__":{"format":"pt"},)" + tensor + "}", "abcd")),
                  "is a safetensors file but not a Millrace checkpoint");
  const std::string others[] = {"\x89PNG\r\n\x1a\n" + std::string(100, 'x'),
                                "PK\x03\x04" + std::string(100, 'x'),
                                "experiment = \"cartpole\"\n[env]\n",
                                std::string(4096, '\0'),
                                std::string("\x7f"
                                            "ELF\2\1\1\0\0\0\0\0\0\0\0\0",
                                            16),
                                "{\"a\": 1}"};
  for (const std::string& other : others) expect_contains(refusal(other), "not a Millrace checkpoint");
}

TEST(Checkpoint, NewerFormatsSayWhichAndOldReadersStopThere) {
  const auto with_version = [](const std::string& version) {
    return file_of(R"({"__metadata__":{"format":"millrace-checkpoint","format_version":")" + version +
                       R"("},"w":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}})",
                   "a");
  };
  expect_contains(refusal(with_version("2")), "format 2 is newer than this Millrace reads (1)");
  expect_contains(refusal(with_version("99999999999999999999999999999999999")), "is newer than");
  for (const char* nonsense : {"", "0", "01", "1.0", "-1", " 1", "one"}) {
    expect_contains(refusal(with_version(nonsense)), "is damaged");
  }
  expect_contains(refusal(with_version("1")), "unknown type \"F8_E5M2\"");
  expect_contains(refusal(file_of(R"({"__metadata__":{"format":"millrace-checkpoint"}})")),
                  "no format version");
}

TEST(Checkpoint, ChecksumsInAnyOtherFormAreRefused) {
  const std::string bytes = bytes_of(sample_checkpoint(6));
  const std::string digits = checksum_by_definition(bytes);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    const std::uint64_t length = header_length(bytes) + to.size() - from.size();
    std::memcpy(changed.data(), &length, sizeof length);
    return changed;
  };
  (void)parse_text(replaced(digits, digits));
  std::string upper = digits;
  for (char& digit : upper) digit = static_cast<char>(std::toupper(static_cast<unsigned char>(digit)));
  refusal(replaced(digits, upper));
  expect_contains(refusal(replaced(digits, digits.substr(1))), "no checksum");
  expect_contains(refusal(replaced(digits, "")), "no checksum");
  expect_contains(refusal(replaced("\"checksum\":\"" + digits + "\",", "")), "no checksum");
  expect_contains(refusal(replaced("\"checksum\":", "\"\\u0063hecksum\":")), "no checksum");
  refusal(replaced("\"checksum\":", "\"checksum\": "));
}

// Keys and values that look like the checksum's own place must not draw it to theirs.
TEST(Checkpoint, MetadataMayLookLikeTheChecksum) {
  const std::string zeros(32, '0');
  Checkpoint checkpoint = sample_checkpoint(10);
  for (const char* key :
       {"\"checksum", ",\"checksum", "{\"checksum", "\\\"checksum", "Checksum", "a_checksum"}) {
    checkpoint.set_metadata(key, zeros);
  }
  checkpoint.set_metadata("a", "{\"checksum\":\"" + zeros + "\"}");
  checkpoint.put<float>("checksum", 1.0f);
  const std::string bytes = bytes_of(checkpoint);
  EXPECT_TRUE(parse_text(bytes) == checkpoint);
  for (std::size_t at = bytes.find(zeros); at != std::string::npos; at = bytes.find(zeros, at + 1)) {
    std::string changed = bytes;
    changed[at] = '1';
    refusal(changed);
  }
}

TEST(Checkpoint, AbsurdHeaderLengthsAllocateNothing) {
  constexpr std::uint64_t kOne = 1;
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  for (const std::uint64_t length : {57 * kOne, kOne << 31, kOne << 40, kMax, kMax - 7, kOne << 63}) {
    std::string bytes(64, ' ');
    std::memcpy(bytes.data(), &length, sizeof length);
    expect_contains(refusal(bytes), "its header would have " + std::to_string(length) + " bytes");
  }
  // A sparse file can really be as long as it says.
  const TemporaryFolder folder;
  const std::uint64_t length = std::uint64_t{1} << 33;
  make_file(folder / "sparse", std::string(reinterpret_cast<const char*>(&length), sizeof length));
  std::error_code error;
  fs::resize_file(folder / "sparse", length + 8, error);
  if (error) GTEST_SKIP() << "no sparse files here";
  expect_contains(message_of<UserError>([&] { (void)read_checkpoint(folder / "sparse"); }),
                  "100000000 can be");
}

TEST(Checkpoint, PathsThatAreNoFileAreRefused) {
  const TemporaryFolder folder;
  const auto read = [](const fs::path& path) {
    const std::string message = message_of<UserError>([&] { (void)read_checkpoint(path); });
    expect_contains(message, path.string());
    return message;
  };
  expect_contains(read(folder / "none"), "there is no file");
  expect_contains(read(folder.path()), "is a folder");
  make_file(folder / "empty", "");
  expect_contains(read(folder / "empty"), "is empty");
  expect_contains(read(folder / "empty" / "below"), "cannot read");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_contains(read(folder / "pipe"), "no regular file");
  expect_contains(read("/dev/zero"), "no regular file");
  fs::create_symlink(folder / "loop", folder / "loop");
  expect_contains(read(folder / "loop"), "cannot read");
  if (::geteuid() != 0) {
    make_file(folder / "secret", "x");
    fs::permissions(folder / "secret", fs::perms::none);
    expect_contains(read(folder / "secret"), "cannot read");
  }
}

// ---- Writing
// -------------------------------------------------------------------------------------------------

/// Writes over an old file where that must fail; the old file stays, and nothing else.
void expect_failed_write_leaves_old(const fs::path& path, const std::string& reason) {
  const std::string old = bytes_of_file(path);
  const auto names = names_in(path.parent_path());
  const std::string message =
      message_of<RunError>([&] { write_checkpoint(sample_checkpoint(8, 100'000), path); });
  expect_contains(message, "cannot write " + path.string() + ": ");
  expect_contains(message, reason);
  EXPECT_EQ(bytes_of_file(path), old);
  EXPECT_EQ(names_in(path.parent_path()), names);
}

TEST(CheckpointWrite, FileSizeLimitLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_checkpoint(sample_checkpoint(7), folder / "a.safetensors");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {0, 1, 100, 4096, 65'537, 1'000'000}) {
    const rlimit low = {limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    // SIGXFSZ keeps its default action here, which would end this process.
    expect_failed_write_leaves_old(folder / "a.safetensors", "File too large");
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_TRUE(read_checkpoint(folder / "a.safetensors") == sample_checkpoint(7));
  write_checkpoint(sample_checkpoint(8), folder / "a.safetensors");
  EXPECT_TRUE(read_checkpoint(folder / "a.safetensors") == sample_checkpoint(8));
}

TEST(CheckpointWrite, ImpossiblePathsAreRunErrors) {
  const TemporaryFolder folder;
  const auto write = [](const fs::path& path) {
    return message_of<RunError>([&] { write_checkpoint(sample_checkpoint(1), path); });
  };
  expect_contains(write(folder / "none/a.safetensors"), "No such file or directory");
  make_file(folder / "file", "text");
  expect_contains(write(folder / "file/a.safetensors"), "Not a directory");
  fs::create_directory(folder / "folder");
  expect_contains(write(folder / "folder"), "Is a directory");
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"file", "folder"}));
  if (::geteuid() != 0) {
    fs::permissions(folder / "folder", fs::perms::owner_read | fs::perms::owner_exec);
    expect_contains(write(folder / "folder/a.safetensors"), "Permission denied");
  }
}

/// Whether this process now has mounts of its own to make: as root, or as root of a namespace of its own.
bool own_mounts() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const std::string user = std::to_string(::geteuid());
    const std::string group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    make_file("/proc/self/setgroups", "deny");
    make_file("/proc/self/uid_map", "0 " + user + " 1");
    make_file("/proc/self/gid_map", "0 " + group + " 1");
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// In a process of its own; 77 says that this machine allows no mounts.
int full_disk_child(const fs::path& folder) {
  if (!own_mounts() || ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=256k") != 0) return 77;
  try {
    write_checkpoint(sample_checkpoint(7), folder / "a.safetensors");
  } catch (const RunError& error) {
    ADD_FAILURE() << error.what();
    return 1;
  }
  expect_failed_write_leaves_old(folder / "a.safetensors", "No space left on device");
  return testing::Test::HasFailure() ? 1 : 0;
}

TEST(CheckpointWrite, FullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(full_disk_child(folder.path()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mounts for this user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CheckpointWrite, LinksShareTheFileAndReplaceTheOldName) {
  const TemporaryFolder folder;
  const Checkpoint one = sample_checkpoint(1);
  const Checkpoint two = sample_checkpoint(2);
  write_checkpoint(one, folder / "one.safetensors");
  write_checkpoint(two, folder / "two.safetensors");
  link_checkpoint(folder / "one.safetensors", one, folder / "best.safetensors");
  link_checkpoint(folder / "one.safetensors", one, folder / "best.safetensors");  // already so
  EXPECT_TRUE(read_checkpoint(folder / "best.safetensors") == one);
  link_checkpoint(folder / "two.safetensors", two, folder / "best.safetensors");
  EXPECT_TRUE(read_checkpoint(folder / "best.safetensors") == two);
  EXPECT_EQ(fs::hard_link_count(folder / "two.safetensors"), 2u);
  write_checkpoint(one, folder / "two.safetensors");  // the other name keeps its content
  EXPECT_TRUE(read_checkpoint(folder / "best.safetensors") == two);
  link_checkpoint(folder / "gone.safetensors", one, folder / "best.safetensors");  // a copy then
  EXPECT_TRUE(read_checkpoint(folder / "best.safetensors") == one);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"best.safetensors", "one.safetensors", "two.safetensors"}));
}

TEST(CheckpointFolder, TemporariesOfTheDeadGoAndThoseOfTheLivingStay) {
  const TemporaryFolder folder;
  const std::string dead = ".step_000000000001.safetensors.0123456789abcdef.checkpoint.tmp";
  const std::string alive = ".step_000000000002.safetensors.0123456789abcdef.checkpoint.tmp";
  for (const std::string& name : {dead, alive, std::string("notes.tmp"), std::string(".other.tmp")}) {
    make_file(folder / name, "half");
  }
  const int descriptor = ::open((folder / alive).c_str(), O_RDONLY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 1u);
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{alive, "notes.tmp", ".other.tmp"}));
  ::close(descriptor);
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 1u);
  EXPECT_EQ(remove_stale_temporaries(folder / "none"), 0u);
}

TEST(CheckpointFolder, FindsTheLatestValidOneAndSaysWhatItSkipped) {
  const TemporaryFolder run;
  const fs::path folder = run / "checkpoints";
  EXPECT_FALSE(find_latest_checkpoint(folder).has_value());
  fs::create_directory(folder);
  EXPECT_FALSE(find_latest_checkpoint(folder).has_value());
  expect_contains(message_of<UserError>([&] { (void)resolve_checkpoint(run.path()); }),
                  "there is no checkpoint in ");

  const auto at = [&](std::uint64_t step) { return folder / checkpoint_file_name(step); };
  EXPECT_EQ(at(7).filename(), "step_000000000007.safetensors");
  const std::uint64_t huge = 12'345'678'901'234'567'890ull;  // more digits than the name is padded to
  for (const std::uint64_t step : {std::uint64_t{9}, std::uint64_t{1000}, huge}) {
    write_checkpoint(sample_checkpoint(step), at(step));
  }
  make_file(folder / "step_7.safetensors", "not our way to write it");
  make_file(folder / "step_000000009999.safetensors.bak", "nor this");
  EXPECT_EQ(list_checkpoints(folder).size(), 3u);
  std::vector<SkippedCheckpoint> skipped;
  EXPECT_EQ(find_latest_checkpoint(folder, &skipped)->path, at(huge));
  EXPECT_TRUE(skipped.empty());

  fs::resize_file(at(huge), 100);
  make_file(at(2000), "");
  const auto found = find_latest_checkpoint(folder, &skipped);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, at(1000));
  EXPECT_TRUE(found->checkpoint == sample_checkpoint(1000));
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_EQ(skipped[0].path, at(huge));
  expect_contains(skipped[0].reason, "truncated");
  EXPECT_EQ(skipped[1].path, at(2000));
  expect_contains(skipped[1].reason, "empty");

  for (const fs::path& name : {run.path(), folder, at(1000)})
    EXPECT_EQ(resolve_checkpoint(name).path, at(1000));
  EXPECT_EQ(resolve_checkpoint(at(9)).path, at(9));
  expect_contains(message_of<UserError>([&] { (void)resolve_checkpoint(at(2000)); }), "empty");
  expect_contains(message_of<UserError>([&] { (void)resolve_checkpoint(run / "none"); }), "there is no file");

  write_checkpoint(sample_checkpoint(5), folder / kBestCheckpointName);
  EXPECT_EQ(find_latest_checkpoint(folder)->path, at(1000));
  for (const std::uint64_t step : {9, 1000}) make_file(at(step), "damaged");
  EXPECT_EQ(find_latest_checkpoint(folder)->path, folder / kBestCheckpointName);
  make_file(folder / kBestCheckpointName, "damaged");
  EXPECT_FALSE(find_latest_checkpoint(folder).has_value());
  expect_contains(message_of<UserError>([&] { (void)resolve_checkpoint(run.path()); }),
                  "no valid checkpoint");
}

// ---- Other readers
// -------------------------------------------------------------------------------------------

constexpr const char* kPythonReader = R"(
import json, sys, numpy, safetensors, safetensors.numpy
path, foreign = sys.argv[1:]
tensors = safetensors.numpy.load_file(path)
print(json.dumps({n: [str(t.dtype), list(t.shape), t.tobytes().hex()] for n, t in tensors.items()}))
with safetensors.safe_open(path, framework="np") as file:
    print(json.dumps(file.metadata()))
safetensors.numpy.save_file({"w": numpy.zeros(3, numpy.float32)}, foreign)
)";

TEST(CheckpointPython, TheSafetensorsPackageReadsTheSame) {
  if (std::system("python3 -c 'import numpy, safetensors.numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 has no safetensors and numpy";
  }
  const TemporaryFolder folder;
  const Checkpoint checkpoint = sample_checkpoint(9, 31);
  write_checkpoint(checkpoint, folder / "a.safetensors");
  make_file(folder / "read.py", kPythonReader);
  const std::string in = folder.path().string() + "/";
  const std::string command =
      "python3 " + in + "read.py " + in + "a.safetensors " + in + "foreign > " + in + "out";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream out(folder / "out");
  std::string tensor_line;
  std::string metadata_line;
  std::getline(out, tensor_line);
  std::getline(out, metadata_line);
  const auto tensors = nlohmann::json::parse(tensor_line);
  const std::map<std::string, std::string> types = {{"F32", "float32"}, {"F64", "float64"}, {"I32", "int32"},
                                                    {"U32", "uint32"},  {"I64", "int64"},   {"U64", "uint64"},
                                                    {"U8", "uint8"}};
  EXPECT_EQ(tensors.size(), checkpoint.tensors().size());
  for (const Tensor& tensor : checkpoint.tensors()) {
    SCOPED_TRACE(tensor.name);
    std::string hex;
    for (const std::byte byte : tensor.bytes) {
      for (const int digit : {std::to_integer<int>(byte) >> 4, std::to_integer<int>(byte) & 15}) {
        hex += "0123456789abcdef"[digit];
      }
    }
    ASSERT_TRUE(tensors.contains(tensor.name));
    const auto& seen = tensors.at(tensor.name);
    EXPECT_EQ(seen.at(0), types.at(std::string(to_string(tensor.type))));
    EXPECT_EQ(seen.at(1), nlohmann::json(tensor.shape));
    EXPECT_EQ(seen.at(2), hex);
  }
  const auto metadata = nlohmann::json::parse(metadata_line);
  for (const auto& [key, value] : checkpoint.metadata()) EXPECT_EQ(metadata.at(key), value);
  EXPECT_EQ(metadata.at("format"), "millrace-checkpoint");
  expect_contains(message_of<UserError>([&] { (void)read_checkpoint(folder / "foreign"); }),
                  "is a safetensors file but not a Millrace checkpoint");
}

}  // namespace
}  // namespace millrace
