#include "runtime/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "runtime/error.hpp"

namespace millrace {

Tensor& Checkpoint::add_tensor(std::string name, TensorType type, TensorShape shape) {
  const auto bytes = tensor_bytes(type, shape);
  if (name.empty() || name == "__metadata__" || !is_valid_utf8(name) || contains(name) ||
      shape.size() > kMaxTensorRank || !bytes) {
    throw std::invalid_argument(fmt::format("tensor {} of shape {} cannot be added to a checkpoint",
                                            quoted_name(name), to_string(shape)));
  }
  return tensors_.emplace_back(Tensor{std::move(name), type, std::move(shape), TensorBytes(*bytes)});
}

void Checkpoint::require_count(std::string_view name, const TensorShape& shape, std::size_t count) {
  if (tensor_bytes(TensorType::kU8, shape) == count) return;
  throw std::invalid_argument(
      fmt::format("tensor {} of shape {} got {} values", quoted_name(name), to_string(shape), count));
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = std::find_if(tensors_.begin(), tensors_.end(),
                               [name](const Tensor& tensor) { return tensor.name == name; });
  return at == tensors_.end() ? nullptr : &*at;
}

const Tensor& Checkpoint::require_tensor(std::string_view name, TensorType type,
                                         const TensorShape* shape) const {
  const Tensor* tensor = find(name);
  if (tensor != nullptr && tensor->type == type && (shape == nullptr || tensor->shape == *shape)) {
    return *tensor;
  }
  const std::string_view file = origin_.empty() ? std::string_view("the checkpoint") : origin_;
  const std::string expected =
      fmt::format("{}{}", to_string(type), shape == nullptr ? "" : " of shape " + to_string(*shape));
  if (tensor == nullptr) {
    throw UserError(
        fmt::format("{} has no tensor {}, where {} is expected.", file, quoted_name(name), expected));
  }
  throw UserError(fmt::format("{}: tensor {} is {} of shape {}, but {} is expected.", file, quoted_name(name),
                              to_string(tensor->type), to_string(tensor->shape), expected));
}

std::uint64_t Checkpoint::data_bytes() const {
  return std::accumulate(tensors_.begin(), tensors_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Tensor& tensor) { return sum + tensor.bytes.size(); });
}

void Checkpoint::set_metadata(std::string key, std::string value) {
  if (key == "format" || key == "format_version" || key == "checksum" || !is_valid_utf8(key) ||
      !is_valid_utf8(value)) {
    throw std::invalid_argument(fmt::format("metadata {} cannot be set", quoted_name(key)));
  }
  metadata_[std::move(key)] = std::move(value);
}

const std::string& Checkpoint::metadata(const std::string& key) const {
  const auto at = metadata_.find(key);
  if (at != metadata_.end()) return at->second;
  throw UserError(
      fmt::format("{} has no metadata {}.", origin_.empty() ? "the checkpoint" : origin_, quoted_name(key)));
}

}  // namespace millrace
