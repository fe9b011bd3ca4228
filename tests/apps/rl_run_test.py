"""rl_run from outside: what people type, what they get, and what happens when things go wrong.

Usage: rl_run_test.py PATH_TO_RL_RUN SOURCE_DIR [unittest arguments]
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RL_RUN = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
CARTPOLE = os.path.join(SOURCE, "configs", "cartpole.toml")
# How many kills; the full number is asked for by MILLRACE_KILLS=50.
KILLS = int(os.environ.get("MILLRACE_KILLS", "12"))


def run(*arguments, stdin=None, **more):
    return subprocess.run([RL_RUN, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=300,
                          **more)


class Folder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name

    def tearDown(self):
        self.temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, name, *settings, **more):
        return run("train", CARTPOLE, "--run-dir", self.path(name), "--json", "--quiet", *settings, **more)

    def assert_one_sentence(self, result, code=2):
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("rl_run: "), lines[0])
        self.assertGreater(len(lines[0]), 20)


SHORT = ("algo.total_steps=320000", "eval.episodes=32")


class Train(Folder):
    def test_json_holds_one_object_with_the_promised_keys(self):
        result = self.train("run", *SHORT)
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout)
        for key in ("run_dir seed env_id num_envs device threads steps updates wall_s train_s steps_per_s "
                    "greedy_return_mean greedy_return_std greedy_episodes first_step_at_threshold "
                    "seconds_at_threshold digest").split():
            self.assertIn(key, summary)
        self.assertEqual(summary["num_envs"], 2000)
        self.assertGreaterEqual(summary["steps"], 320000)
        with open(self.path("run/summary.json")) as file:
            self.assertEqual(json.load(file), summary)

    def test_run_folder_holds_everything(self):
        self.train("run", *SHORT)
        names = os.listdir(self.path("run"))
        for name in ("config.toml", "metrics.jsonl", "metrics.csv", "checkpoints", "summary.json"):
            self.assertIn(name, names)
        self.assertTrue(any(name.startswith("events.out.tfevents.") for name in names))
        with open(self.path("run/metrics.jsonl")) as file:
            rows = [json.loads(line) for line in file]
        self.assertTrue(any("eval/mean_reward" in row for row in rows))
        self.assertTrue(any("losses/td_loss" in row for row in rows))
        # The resolved configuration is a configuration.
        again = run("train", self.path("run/config.toml"), "--dry-run")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_learning_curve_is_an_svg(self):
        if subprocess.run(["which", "gnuplot"], capture_output=True).returncode != 0:
            self.skipTest("gnuplot is not installed")
        self.train("run", *SHORT)
        with open(self.path("run/learning_curve.svg")) as file:
            self.assertIn("<svg", file.read())

    def test_missing_gnuplot_is_one_line_and_no_failure(self):
        result = run("train", CARTPOLE, "--run-dir", self.path("run"), *SHORT, env={"PATH": "/nonexistent"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gnuplot", result.stderr)

    def test_seeds_give_runs_with_statistics(self):
        result = self.train("run", *SHORT, "--seeds", 3)
        summary = json.loads(result.stdout)
        self.assertEqual([one["seed"] for one in summary["runs"]], [1, 2, 3])
        self.assertEqual(len({one["digest"] for one in summary["runs"]}), 3)
        self.assertLessEqual(summary["ci95"][0], summary["iqm"])
        self.assertGreaterEqual(summary["ci95"][1], summary["iqm"])

    def test_dry_run_prints_configuration_and_memory_plan(self):
        result = run("train", CARTPOLE, "--dry-run", "run.threads=1")
        self.assertEqual(result.returncode, 0)
        self.assertIn("[algo]", result.stdout)
        self.assertIn("# Memory:", result.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_same_digest_for_any_number_of_threads_and_without_evaluations(self):
        settings = ("algo.total_steps=300000", "eval.episodes=16")
        digests = {json.loads(self.train(f"threads{n}", *settings, f"run.threads={n}").stdout)["digest"]
                   for n in (1, 2, 3, 8)}
        digests.add(json.loads(self.train("rare", *settings, "eval.every=default", "eval.only_at_end=true").stdout)["digest"])
        self.assertEqual(len(digests), 1)

    def test_stop_at_ends_the_run(self):
        summary = json.loads(self.train("run", "eval.stop_at=15", "eval.episodes=32").stdout)
        self.assertEqual(summary["ending"], "stopped")
        self.assertLess(summary["steps"], 2000000)

    def test_eval_of_a_run_and_of_a_checkpoint_agree(self):
        self.train("run", *SHORT)
        by_run = run("eval", self.path("run"), "--json", "--episodes", 40, "--seed", 9)
        checkpoints = sorted(os.listdir(self.path("run/checkpoints")))
        last = [name for name in checkpoints if name.startswith("step_")][-1]
        by_file = run("eval", self.path("run/checkpoints/" + last), "--json", "--episodes", 40, "--seed", 9)
        self.assertEqual(json.loads(by_run.stdout)["greedy_return_mean"],
                         json.loads(by_file.stdout)["greedy_return_mean"])

    def test_weights_are_readable_by_safetensors(self):
        try:
            from safetensors.numpy import load_file
        except ImportError:
            self.skipTest("the package safetensors is not installed")
        self.train("run", *SHORT)
        name = sorted(os.listdir(self.path("run/checkpoints")))[-1]
        tensors = load_file(self.path("run/checkpoints/" + name))
        self.assertEqual(tensors["layers.0.weight"].shape[0], 4)
        self.assertEqual(tensors["layers.0.bias"].shape[0], tensors["layers.0.weight"].shape[1])

    def test_tensorboard_reads_the_events(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("the package tensorboard is not installed")
        self.train("run", *SHORT)
        events = EventAccumulator(self.path("run"))
        events.Reload()
        self.assertIn("losses/td_loss", events.Tags()["scalars"])
        with open(self.path("run/metrics.jsonl")) as file:
            rows = [json.loads(line) for line in file]
        wanted = [row["step"] for row in rows if "losses/td_loss" in row]
        self.assertEqual([event.step for event in events.Scalars("losses/td_loss")], wanted)


    def test_values_with_commas_stay_whole(self):
        result = run("train", CARTPOLE, "--dry-run", "network.hidden=[32, 48]")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("hidden = [32, 48]", result.stdout)


class Interruption(Folder):
    LONG = ("algo.total_steps=30000000", "eval.episodes=32", "run.checkpoint_every=200000")

    def start(self, name, *settings):
        return subprocess.Popen([RL_RUN, "train", CARTPOLE, "--run-dir", self.path(name), "--json", "--quiet",
                                 *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_signals_leave_a_checkpoint_and_exit_code_3_in_time(self):
        for number, wanted in ((signal.SIGINT, "INT"), (signal.SIGTERM, "TERM")):
            process = self.start(wanted, *self.LONG)
            while not os.path.exists(self.path(wanted + "/metrics.jsonl")):
                time.sleep(0.01)
            time.sleep(0.3)
            process.send_signal(number)
            process.communicate(timeout=10)  # the promise is two seconds; a busy machine gets more
            self.assertEqual(process.returncode, 3)
            self.assertEqual(run("eval", self.path(wanted), "--episodes", 4).returncode, 0)

    def test_interrupted_and_resumed_equals_undisturbed(self):
        settings = ("algo.total_steps=1600000", "eval.episodes=32")
        undisturbed = json.loads(self.train("whole", *settings).stdout)
        process = self.start("parts", *settings)
        while not os.path.exists(self.path("parts/metrics.jsonl")):
            time.sleep(0.005)
        time.sleep(0.15)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        resumed = run("resume", self.path("parts"), "--json", "--quiet")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(json.loads(resumed.stdout)["digest"], undisturbed["digest"])
        steps = []
        with open(self.path("parts/metrics.jsonl")) as file:
            for line in file:
                row = json.loads(line)
                if "losses/td_loss" in row:
                    steps.append(row["step"])
        # Every iteration once: no row is lost, none is there twice.
        chunk = steps[0]
        self.assertEqual(steps, list(range(chunk, undisturbed["steps"] + 1, chunk)))

    def test_kill_at_any_moment_resumes_to_the_same_digest(self):
        settings = ("algo.total_steps=1600000", "eval.episodes=16", "run.checkpoint_every=32000")
        wanted = json.loads(self.train("whole", *settings).stdout)["digest"]
        generator = random.Random(1)
        for i in range(KILLS):
            name = f"killed{i}"
            process = self.start(name, *settings)
            time.sleep(generator.uniform(0.0, 0.6))
            process.kill()
            process.communicate()
            resumed = run("resume", self.path(name), "--json", "--quiet")
            if resumed.returncode == 2:
                self.assertFalse([f for f in (os.listdir(self.path(name + "/checkpoints"))
                                              if os.path.isdir(self.path(name + "/checkpoints")) else [])
                                  if f.startswith("step_")], resumed.stderr)
            else:
                self.assertEqual(resumed.returncode, 0, resumed.stderr)
                self.assertEqual(json.loads(resumed.stdout)["digest"], wanted)

    def test_full_disk_ends_in_exit_code_4_and_keeps_the_last_checkpoint(self):
        self.train("run", *SHORT)
        before = run("eval", self.path("run"), "--episodes", 8, "--json")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

        result = run("resume", self.path("run"), "algo.total_steps=900000", "--json", "--quiet", preexec_fn=limit)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertTrue(result.stderr.startswith("rl_run: "), result.stderr)
        after = run("eval", self.path("run"), "--episodes", 8, "--json")
        self.assertEqual(json.loads(after.stdout), json.loads(before.stdout))


class Trace(Folder):
    def lines(self, *arguments, **more):
        result = run("trace", *arguments, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_first_line_is_the_start_and_each_step_has_a_line(self):
        lines = self.lines("CartPole-v1", "--actions", "[0,1,1]", "--state",
                           '{"x":0.01,"x_dot":0,"theta":0.02,"theta_dot":0}')
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], {"state": {"x": 0.01, "x_dot": 0, "theta": 0.02, "theta_dot": 0},
                                    "observation": [0.01, 0, 0.02, 0]})
        self.assertEqual(lines[1]["reward"], 1)
        self.assertFalse(lines[1]["terminated"] or lines[1]["truncated"])

    def test_transitions_equal_single_steps(self):
        text = ""
        wanted = []
        generator = random.Random(2)
        for _ in range(50):
            state = {name: generator.uniform(-0.2, 0.2) for name in ("x", "x_dot", "theta", "theta_dot")}
            action = generator.randrange(2)
            text += json.dumps({"state": state, "action": action}) + "\n"
            wanted.append(self.lines("CartPole-v1", "--state", json.dumps(state), "--actions", f"[{action}]")[1])
        self.assertEqual(self.lines("CartPole-v1", "--transitions", "-", stdin=text), wanted)

    def test_time_limit_falls_exactly_on_its_step(self):
        lines = self.lines("Pendulum-v1", "--actions", json.dumps([2] * 200))
        self.assertEqual([line["truncated"] for line in lines[1:]], [False] * 199 + [True])
        lines = self.lines("MountainCar-v0", "--params", '{"max_episode_steps": 3}', "--actions", "[1,1,1]")
        self.assertEqual([line["truncated"] for line in lines[1:]], [False, False, True])

    def test_seed_and_instance_choose_the_start(self):
        starts = {json.dumps(self.lines("Acrobot-v1", "--actions", "[]", "--seed", s, "--instance", i)[0])
                  for s in range(5) for i in range(5)}
        self.assertEqual(len(starts), 25)

    def test_envs_lists_parameters(self):
        listing = json.loads(run("envs", "--json").stdout)
        self.assertEqual([one["id"] for one in listing],
                         ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "Pendulum-v1"])
        cartpole = json.loads(run("envs", "CartPole-v1", "--json").stdout)
        force = [p for p in cartpole["params"] if p["name"] == "force_mag"][0]
        self.assertEqual(force["default"], 10)
        self.assertEqual(cartpole["max_episode_steps"], 500)


class Mistakes(Folder):
    def test_malformed_command_lines_get_one_sentence(self):
        state = '{"x":0,"x_dot":0,"theta":0,"theta_dot":0}'
        cases = [["fly"], ["train"], ["train", CARTPOLE, "nonsense"], ["train", CARTPOLE, "--what"],
                 ["train", "nothing.toml"], ["train", self.folder], ["train", CARTPOLE, "--seeds", "0"],
                 ["train", CARTPOLE, "--seeds", "x"], ["eval"], ["eval", self.folder], ["eval", "nothing"],
                 ["eval", CARTPOLE], ["resume", self.folder], ["resume"], ["plot"], ["plot", self.folder],
                 ["envs", "Cart"], ["envs", "a", "b"], ["trace", "CartPole"], ["trace", "CartPole-v1"],
                 ["trace", "CartPole-v1", "--actions", "[]", "--transitions", "-"],
                 ["trace", "CartPole-v1", "--transitions", "nothing"],
                 ["train", CARTPOLE, "run.device=cuda"], ["train", CARTPOLE, "env.num_envs=16000000",
                                                          "algo.num_steps=60000", "algo.total_steps=1000000000000"]]
        for actions in ("", "1", "{}", "[2]", "[-1]", "[0.5]", '["a"]', "[null]", "[0,[1]]", "[1e99]", "[0", "[true]"):
            cases.append(["trace", "CartPole-v1", "--actions", actions])
        for bad in ("1", "[]", "{}", '{"x":0}', state[:-1], state.replace('"x"', '"y"'),
                    state.replace('"x":0', '"x":1e30'), state.replace('"x":0', '"x":null'),
                    state.replace('"x":0', '"x":"0"'), state.replace('"x":0', '"x":-20000'),
                    state[:-1] + ',"z":1}', state.replace('"x":0', '"x":NaN')):
            cases.append(["trace", "CartPole-v1", "--actions", "[0]", "--state", bad])
        for bad in ("1", '{"gravity":"a"}', '{"gravit":1}', '{"gravity":-1}', '{"max_episode_steps":1.5}',
                    '{"gravity":1e40}', "{"):
            cases.append(["trace", "CartPole-v1", "--actions", "[0]", "--params", bad])
        for key in ("seed", "instance"):
            for bad in ("-1", "x", "1.5", "99999999999999999999", ""):
                cases.append(["trace", "CartPole-v1", "--actions", "[0]", "--" + key, bad])
        for case in cases:
            with self.subTest(case=case):
                self.assert_one_sentence(run(*case))
        self.assertEqual(os.listdir(self.folder), [])

    def test_malformed_transitions_name_the_line(self):
        good = '{"state":{"x":0,"x_dot":0,"theta":0,"theta_dot":0},"action":1}\n'
        for bad in ("{}", "[]", "x", '{"state":{},"action":1}', good.strip().replace(":1}", ":2}"),
                    good.strip()[:-1] + ',"more":1}'):
            result = run("trace", "CartPole-v1", "--transitions", "-", stdin=good + bad + "\n")
            self.assert_one_sentence(result)
            self.assertIn("standard input:2", result.stderr)

    def test_damaged_checkpoints_are_refused(self):
        self.train("run", *SHORT)
        name = sorted(os.listdir(self.path("run/checkpoints")))[-1]
        with open(self.path("run/checkpoints/" + name), "rb") as file:
            good = file.read()
        generator = random.Random(3)
        for i in range(60):
            if i % 3 == 0:
                bad = good[:generator.randrange(len(good))]
            else:
                place = generator.randrange(len(good)) if i % 3 == 1 else generator.randrange(2000)
                bad = good[:place] + bytes([good[place] ^ (1 << generator.randrange(8))]) + good[place + 1:]
            with open(self.path("bad.safetensors"), "wb") as file:
                file.write(bad)
            self.assert_one_sentence(run("eval", self.path("bad.safetensors")))

    def test_occupied_run_dir_is_refused_and_untouched(self):
        with open(self.path("file"), "w") as file:
            file.write("mine")
        self.assert_one_sentence(run("train", CARTPOLE, "--run-dir", self.folder))
        self.assertEqual(os.listdir(self.folder), ["file"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
