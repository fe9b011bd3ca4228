// Reads the golden data that record_gymnasium.py recorded from the real Gymnasium; README.md describes the
// files. The inputs of the transitions are not stored: they are drawn here by the script's generator, to the
// bit.
//
// Thread safety: values only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace millrace::golden {

/// A neighbourhood of interest: `field` is drawn from centre +- half_width.
struct Special {
  int field;
  double centre, half_width;
};

/// What the script calls Environment: where the injected states come from.
struct Source {
  const char* id;
  std::uint32_t number;
  std::vector<double> low, high;
  std::vector<Special> specials;
  int actions;
  bool stores_reward;
};

inline const std::vector<Source>& sources() {
  static const std::vector<Source> all = {
      {"CartPole-v1",
       0,
       {-3.0, -4.0, -0.3, -5.0},
       {3.0, 4.0, 0.3, 5.0},
       {{0, 2.4, 0.1}, {0, -2.4, 0.1}, {2, 0.2095, 0.1}, {2, -0.2095, 0.1}, {2, 0.0, 3.2}, {3, 0.0, 20.0}},
       2,
       false},
      {"MountainCar-v0",
       1,
       {-1.3, -0.08},
       {0.7, 0.08},
       {{0, 0.5, 0.07},
        {0, -1.2, 0.07},
        {0, 0.6, 0.07},
        {1, 0.07, 0.003},
        {1, -0.07, 0.003},
        {1, 0.0, 0.003}},
       3,
       false},
      {"Acrobot-v1",
       2,
       {-3.5, -3.5, -13.0, -29.0},
       {3.5, 3.5, 13.0, 29.0},
       {{0, 3.14, 0.5},
        {0, -3.14, 0.5},
        {1, 3.14, 0.5},
        {1, -3.14, 0.5},
        {2, 12.5, 0.5},
        {3, -28.2, 0.5},
        {2, 0.0, 2.0},
        {3, 0.0, 2.0}},
       3,
       false},
      {"Pendulum-v1",
       3,
       {-4.0, -8.5},
       {4.0, 8.5},
       {{0, 3.14159, 0.05},
        {0, -3.14159, 0.05},
        {0, 0.0, 80.0},
        {0, 0.0, 0.05},
        {1, 8.0, 0.5},
        {1, -8.0, 0.5}},
       5,
       true}};
  return all;
}

/// The source called `id`. Throws std::invalid_argument for an id that was not recorded.
inline const Source& source(const std::string& id) {
  for (const Source& s : sources()) {
    if (id == s.id) return s;
  }
  throw std::invalid_argument("there is no golden data of " + id);
}

/// SplitMix64's step and output function.
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
constexpr std::uint64_t draw(std::uint32_t environment, std::uint64_t index, std::uint32_t field) {
  return mix(mix(index) ^ (256u * environment + field));
}
inline constexpr std::uint32_t kActionField = 16, kKindField = 17, kGridField = 18;

/// One injected state and action, and what the reference made of them.
struct Transition {
  std::array<float, 4> state;  ///< as many as the environment has fields; the rest is 0
  int action;
  int num_torques;  ///< Pendulum: the action is an index into so many torques
  std::array<double, 4> next_state;
  double reward;
  bool terminated;
};

struct Episode {
  std::vector<std::array<double, 4>> states;  ///< [steps + 1]
  std::vector<int> actions;                   ///< [steps]
  std::vector<double> rewards;                ///< [steps]
  bool terminated, truncated;                 ///< at the last step; false before it
};

/// The observation that belongs to a state, in double.
inline std::vector<double> observation(const std::string& id, const std::array<double, 4>& s) {
  if (id == "Acrobot-v1") return {std::cos(s[0]), std::sin(s[0]), std::cos(s[1]), std::sin(s[1]), s[2], s[3]};
  if (id == "Pendulum-v1") return {std::cos(s[0]), std::sin(s[0]), s[1]};
  return {s.begin(), s.begin() + static_cast<std::ptrdiff_t>(source(id).low.size())};
}

/// float32 and its residual in 1/254 of the unit in the last place.
inline double decode(float nearest, std::int8_t residual) {
  const float magnitude = std::fabs(nearest);
  const float above = std::nextafter(magnitude, std::numeric_limits<float>::infinity());
  return static_cast<double>(nearest) + residual * ((static_cast<double>(above) - magnitude) / 254.0);
}

/// A golden file's bytes, read in order. Throws std::runtime_error where the file is not what is asked for.
class File {
 public:
  File(const std::string& path, const char* kind, const Source& s, std::uint32_t count) : path_(path) {
    static_assert(std::endian::native == std::endian::little, "the files are little-endian");
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot read " + path);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    char magic[8];
    take(magic, 8);
    std::uint32_t words[5];
    take(words, 5);
    const std::uint32_t expected[5] = {1, s.number, static_cast<std::uint32_t>(s.low.size()), count,
                                       s.stores_reward};
    if (std::memcmp(magic, "MRGOLD", 6) != 0 || std::memcmp(magic + 6, kind, 2) != 0 ||
        !std::equal(words, words + 5, expected)) {
      throw std::runtime_error(path + " has another header");
    }
  }
  template <class T>
  void take(T* to, std::size_t count) {
    if (bytes_.size() - at_ < count * sizeof(T)) throw std::runtime_error(path_ + " ends too early");
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
  }
  template <class T>
  std::vector<T> take(std::size_t count) {
    std::vector<T> values(count);
    take(values.data(), count);
    return values;
  }
  void expect_end() const {
    if (at_ != bytes_.size()) throw std::runtime_error(path_ + " goes on after its end");
  }

 private:
  std::string path_;
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

inline constexpr std::uint32_t kTransitions = 100000, kParts = 2, kEpisodes = 50;

/// The state and action of transition `index`, to the bit what the script injected.
inline Transition input(const Source& s, std::uint64_t index) {
  Transition t{};
  const std::uint64_t kind = draw(s.number, index, kKindField);
  const bool is_special = (kind & 7u) >= 5;
  const Special& special = s.specials[(kind >> 8) % s.specials.size()];
  for (std::size_t f = 0; f < s.low.size(); ++f) {
    const std::uint64_t bits = draw(s.number, index, static_cast<std::uint32_t>(f));
    const double u = static_cast<double>(bits >> 40) * 0x1p-24;
    const bool here = is_special && special.field == static_cast<int>(f);
    const double value =
        here ? special.centre + special.half_width * (2.0 * u - 1.0) : s.low[f] + (s.high[f] - s.low[f]) * u;
    t.state[f] = static_cast<float>(value);
  }
  const std::uint64_t grid = draw(s.number, index, kGridField) & 7u;
  t.num_torques = grid == 0 ? 3 : grid == 1 ? 9 : 5;
  const int count = s.number == 3 ? t.num_torques : s.actions;
  t.action = static_cast<int>(draw(s.number, index, kActionField) % static_cast<std::uint64_t>(count));
  return t;
}

/// All 100,000 transitions of the environment, from the folder that holds the data files.
inline std::vector<Transition> transitions(const std::string& folder, const std::string& id) {
  const Source& s = source(id);
  const std::uint32_t size = kTransitions / kParts;
  const std::size_t fields = s.low.size(), columns = fields + (s.stores_reward ? 1 : 0);
  std::vector<Transition> all;
  all.reserve(kTransitions);
  for (std::uint32_t part = 0; part < kParts; ++part) {
    File file(folder + "/" + id + ".transitions" + std::to_string(part) + ".bin", "TR", s, size);
    const auto nearest = file.take<float>(columns * size);
    const auto residual = file.take<std::int8_t>(columns * size);
    const auto ends = file.take<std::uint8_t>((size + 7) / 8);
    file.expect_end();
    for (std::uint32_t row = 0; row < size; ++row) {
      Transition t = input(s, part * size + row);
      const auto value = [&](std::size_t c) {
        return decode(nearest[c * size + row], residual[c * size + row]);
      };
      for (std::size_t f = 0; f < fields; ++f) t.next_state[f] = value(f);
      t.terminated = ((ends[row / 8] >> (row % 8)) & 1) != 0;
      const double constant = s.number == 0 ? 1.0 : s.number == 2 && t.terminated ? 0.0 : -1.0;
      t.reward = s.stores_reward ? value(fields) : constant;
      all.push_back(t);
    }
  }
  return all;
}

/// All 50 whole episodes of the environment.
inline std::vector<Episode> episodes(const std::string& folder, const std::string& id) {
  const Source& s = source(id);
  const std::size_t fields = s.low.size();
  File file(folder + "/" + id + ".episodes.bin", "EP", s, kEpisodes);
  std::vector<Episode> all;
  for (std::uint32_t e = 0; e < kEpisodes; ++e) {
    std::uint32_t head[2];
    file.take(head, 2);
    Episode episode;
    const auto states = file.take<double>((head[0] + std::size_t{1}) * fields);
    episode.states.resize(head[0] + std::size_t{1});
    for (std::size_t i = 0; i < states.size(); ++i) episode.states[i / fields][i % fields] = states[i];
    episode.rewards = file.take<double>(head[0]);
    const auto actions = file.take<std::uint8_t>(head[0]);
    episode.actions.assign(actions.begin(), actions.end());
    episode.terminated = (head[1] & 1u) != 0;
    episode.truncated = (head[1] & 2u) != 0;
    all.push_back(std::move(episode));
  }
  file.expect_end();
  return all;
}

}  // namespace millrace::golden
