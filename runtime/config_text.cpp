#include "runtime/config_text.hpp"

#include <fmt/format.h>

#include "runtime/config_document.hpp"
#include "runtime/config_schema.hpp"

namespace millrace {

using namespace configuration;

namespace {

std::string key_line(const Key& key, const ExperimentConfig& config) {
  const std::string_view name = leaf_of(key.name);
  if (key.only_with && !key.only_with->holds(config))
    return fmt::format("# {}: only with {}\n", name, key.only_with->text);
  const KeyValue value = key.get(config);
  if (std::holds_alternative<std::monostate>(value)) return fmt::format("# {}: {}\n", name, key.default_text);
  return fmt::format("{} = {}\n", name, value_text(key, value));
}

std::string parameter_line(const EnvParameter& parameter) {
  switch (parameter.type) {
    case ParameterType::kBool:
      return fmt::format("{} = {}\n", parameter.name, parameter.value != 0.0);
    case ParameterType::kInt:
      return fmt::format("{} = {}\n", parameter.name, static_cast<std::int64_t>(parameter.value));
    case ParameterType::kFloat:
      return fmt::format("{} = {}\n", parameter.name, float_text(static_cast<float>(parameter.value)));
  }
  return {};
}

// Text in a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_') out += '\\';
    out += c;
  }
  return out;
}

// As `cell`, but leaves what stands between backquotes alone.
std::string prose(std::string_view text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    if (c == '`') code = !code;
    if (code || c == '`')
      out += c;
    else
      out += cell({&c, 1});
  }
  return out;
}

const char* type_name(const Key& key) {
  switch (key.type) {
    case KeyType::kText:
    case KeyType::kChoice:
      return "string";
    case KeyType::kInteger:
      return "integer";
    case KeyType::kFloat:
      return "float";
    case KeyType::kBoolean:
      return "boolean";
    case KeyType::kIntegerList:
      return "array of integers";
  }
  return "";
}

std::string table_row(const Key& key, const ExperimentConfig& defaults) {
  std::string default_text = fmt::format("`{}`", value_text(key, key.get(defaults)));
  if (key.required) default_text = "required";
  if (key.default_text) default_text = key.default_text;
  std::string allowed = cell(allowed_text(key));
  if (key.only_with) allowed += fmt::format("; only with `{}`", key.only_with->text);
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", leaf_of(key.name), type_name(key), default_text,
                     allowed, prose(key.doc));
}

constexpr const char* kPreface = R"(# Configuration

<!-- Generated from the schema in runtime/config_schema.cpp; a test compares the two.
     After a change of the schema: MILLRACE_UPDATE_DOCS=1 runtime_config_text_test -->

An experiment is one TOML file; `configs/` has some to start from. `rl_run train CONFIG` takes settings on the command
line too, and they win over the file's:

```
rl_run train configs/cartpole.toml algo.lr=0.002 run.device=cpu env.params.force_mag=12 network.hidden='[128, 128]'
```

Reading is strict. Each mistake ends the program with exit code 2 and one sentence that names the file, line and
column (or the argument), the key, what is wrong, and what is allowed:

- An unknown key is an error; the sentence names the nearest known one.
- An integer key takes no float, not even `3.0` or `2e6`; write `2_000_000`. A float key takes an integer
  (`1` for `1.0`) if the float holds it exactly. `true` and `false` are no numbers. Nothing takes `nan` or `inf`.
- Floats other than 0 have a magnitude from 1e-30 to 1e30, so that they fit 32 bits.
- A key that has no meaning beside the others (`momentum` with Adam) is an error where it is set, not ignored.
- On the command line each key stands at most once, strings may go without quotes, and the bare word `default` takes a
  setting of the file back: `algo.hold_max=1 algo.hold_exponent=default`.
- A file has at most 1 MiB of UTF-8 text.

The run folder's `config.toml` is the complete, resolved configuration: every key with its value. It reads back to
exactly the same experiment.
)";

constexpr const char* kParametersRow =
    "| `params` | table | the environment's own | any field of the environment's Config, in its range | "
    "Changes the "
    "rules; `rl_run envs ID` lists the fields. Float fields are 32-bit floats. |\n";

constexpr const char* kClosing = R"(
## Settings that depend on each other

- `env.num_envs` >= `algo.shards`: no shard is empty.
- `algo.num_minibatches` <= (`env.num_envs` / `algo.shards`, rounded down) x `algo.num_steps`: each minibatch has a
  sample of each shard. Other sizes need not divide; minibatches then differ by at most one sample a shard.
- `algo.total_steps` >= `env.num_envs` x `algo.num_steps`: a run has at least one rollout.
)";

}  // namespace

std::string to_toml(const ExperimentConfig& config) {
  std::string text;
  for (const Section& section : sections()) {
    if (*section.name) text += fmt::format("\n[{}]\n", section.name);
    for (const Key& key : schema())
      if (section_of(key.name) == section.name) text += key_line(key, config);
    if (std::string_view(section.name) != "env") continue;
    text += "\n[env.params]\n";
    for (const EnvParameter& parameter : config.env.params) text += parameter_line(parameter);
  }
  return text;
}

std::string configuration_markdown() {
  std::string text = kPreface;
  const ExperimentConfig defaults;
  for (const Section& section : sections()) {
    text += *section.name ? fmt::format("\n## `[{}]`: {}\n\n", section.name, section.doc)
                          : fmt::format("\n## At the top: {}\n\n", section.doc);
    text += "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
    for (const Key& key : schema())
      if (section_of(key.name) == section.name) text += table_row(key, defaults);
    if (std::string_view(section.name) == "env") text += kParametersRow;
  }
  return text + kClosing;
}

}  // namespace millrace
