// A checkpoint: named tensors and text, in memory, and as one file that is complete or absent.
//
// The file is a valid safetensors file. Its metadata also hold `format` ("millrace-checkpoint"),
// `format_version` and `checksum`: XXH3-128, in 32 lower-case hexadecimal digits, of the whole file with
// those digits taken as zeros, so that no byte can change unseen. docs/checkpoints.md has the details.
//
// Thread safety: a Checkpoint is a plain value. The file functions may be called from any thread and process
// at once, also on one path: each writer has a temporary file of its own, and the last rename wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/safetensors.hpp"

namespace millrace {

/// Leaves new elements uninitialised: tensors are filled right after they are made, often by a read.
template <typename T>
struct UninitializedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
};
using TensorBytes = std::vector<std::byte, UninitializedAllocator<std::byte>>;

/// Elements lie densely, last dimension fastest, aligned for their type.
struct Tensor {
  std::string name;
  TensorType type = TensorType::kU8;
  TensorShape shape;
  TensorBytes bytes;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// The C++ type of each TensorType.
template <typename T>
inline constexpr std::optional<TensorType> kTensorTypeOf = std::nullopt;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<float> = TensorType::kF32;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<double> = TensorType::kF64;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<std::int32_t> = TensorType::kI32;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<std::uint32_t> = TensorType::kU32;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<std::int64_t> = TensorType::kI64;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<std::uint64_t> = TensorType::kU64;
template <>
inline constexpr std::optional<TensorType> kTensorTypeOf<std::uint8_t> = TensorType::kU8;

template <typename T>
concept TensorElement = kTensorTypeOf<T>
.has_value();

/// Tensors in the order in which they were added, and metadata. Written and read back, a checkpoint is equal.
///
///     Checkpoint checkpoint;
///     checkpoint.put<float>("q/weight0", {64, 4}, weights);
///     checkpoint.set_metadata("env_id", "CartPole-v1");
///     write_checkpoint(checkpoint, "a.safetensors");
///     std::span<const float> same = read_checkpoint("a.safetensors").get<float>("q/weight0", {64, 4});
class Checkpoint {
 public:
  /// Adds a tensor for the caller to fill: its elements are uninitialised. The span stays valid as long as
  /// the checkpoint, or what it is moved to, lives. REQUIRES: `name` is new, not empty, valid UTF-8, not
  /// "__metadata__"; at most kMaxTensorRank dimensions; else std::invalid_argument.
  template <TensorElement T>
  std::span<T> add(std::string name, TensorShape shape) {
    Tensor& tensor = add_tensor(std::move(name), *kTensorTypeOf<T>, std::move(shape));
    return {reinterpret_cast<T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
  }

  /// Adds a tensor with a copy of `values`. REQUIRES: as add, and as many values as the shape has.
  template <TensorElement T>
  void put(std::string name, TensorShape shape, std::span<const T> values) {
    require_count(name, shape, values.size());
    const std::span<T> elements = add<T>(std::move(name), std::move(shape));
    if (!values.empty()) std::memcpy(elements.data(), values.data(), values.size_bytes());
  }
  template <TensorElement T>
  void put(std::string name, T value) {
    add<T>(std::move(name), {})[0] = value;
  }

  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// nullptr if there is none.
  [[nodiscard]] const Tensor* find(std::string_view name) const;

  /// The elements of a tensor that must have just this type and shape. Throws UserError naming file and
  /// tensor, what was found and what was expected.
  template <TensorElement T>
  [[nodiscard]] std::span<const T> get(std::string_view name, const TensorShape& expected_shape) const {
    return elements<T>(require_tensor(name, *kTensorTypeOf<T>, &expected_shape));
  }
  /// Likewise of any shape, for instance where the file decides the shape.
  template <TensorElement T>
  [[nodiscard]] std::span<const T> get(std::string_view name) const {
    return elements<T>(require_tensor(name, *kTensorTypeOf<T>, nullptr));
  }
  /// A scalar. Throws UserError as get does.
  template <TensorElement T>
  [[nodiscard]] T get_scalar(std::string_view name) const {
    return get<T>(name, {})[0];
  }

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Bytes of all tensors.
  [[nodiscard]] std::uint64_t data_bytes() const;

  /// REQUIRES: both valid UTF-8, and the key none that the format adds itself (format, format_version,
  /// checksum); else std::invalid_argument.
  void set_metadata(std::string key, std::string value);
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Throws UserError naming file and key if there is none.
  [[nodiscard]] const std::string& metadata(const std::string& key) const;

  /// The file that this was read from, for messages; empty if it was made here. No part of equality.
  [[nodiscard]] const std::string& origin() const { return origin_; }

  friend bool operator==(const Checkpoint& a, const Checkpoint& b) {
    return a.tensors_ == b.tensors_ && a.metadata_ == b.metadata_;
  }

 private:
  friend class CheckpointParser;  // fills it from a file

  template <typename T>
  static std::span<const T> elements(const Tensor& tensor) {
    return {reinterpret_cast<const T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
  }
  Tensor& add_tensor(std::string name, TensorType type, TensorShape shape);
  static void require_count(std::string_view name, const TensorShape& shape, std::size_t count);
  const Tensor& require_tensor(std::string_view name, TensorType type, const TensorShape* shape) const;

  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::string origin_;
};

inline constexpr std::uint64_t kCheckpointFormatVersion = 1;

/// Reads and verifies a file. Allocates no more than a small multiple of the file's size. Throws UserError,
/// one sentence with file and reason, if it is missing, no regular file, empty, truncated, damaged, foreign,
/// or of a newer format.
[[nodiscard]] Checkpoint read_checkpoint(const std::filesystem::path& path);

/// The same for a file's bytes in memory; `file` is for messages.
[[nodiscard]] Checkpoint parse_checkpoint(std::span<const std::byte> bytes, std::string_view file);

/// Writes the file so that at any moment, also after a crash of the machine, `path` holds the old content or
/// the new, whole: temporary file in the same folder, fsync, rename, fsync of the folder. Throws RunError
/// with path and reason (disk full, quota, no permission); the old file is then intact and the temporary
/// gone. Only if the folder's own fsync fails is the new file in place already, though not known to be
/// durable.
void write_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path);

/// Makes `path` a second name of the checkpoint file `from` that holds `checkpoint`, as atomically; a copy
/// where the file system has no hard links. Throws RunError as write_checkpoint does.
void link_checkpoint(const std::filesystem::path& from, const Checkpoint& checkpoint,
                     const std::filesystem::path& path);

}  // namespace millrace
