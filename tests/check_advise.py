#!/usr/bin/python3
"""`memwall advise` is what trying every machine and number of nodes gives; prints TAP.

Random small spaces are searched, and asked one by one with `simulate`; so is every step of what
to buy for a machine.
"""
import itertools
import json
import math
import random
import sys

from command import Box, refused, sample, unless_few
from tap import report_in

SEED = 20261128
MACHINES = ["a100", "aws-g5-12xlarge", "aws-g6e-12xlarge", "dgx-a100", "dgx1v", "gh200",
            "lambda-h100", "mi300x", "rtx3090", "rtx4090", "rtx4090-8x", "rtx5090"]
MODELS = ["gpt2", "gpt2-medium", "gpt2-xl", "llama-3.2-1b"]
NODES_MOST = 4
DISCONTINUED = {"dgx1v"}
GONE = "are no longer sold at the price that is known"
BY_BOUND = {"have no room for the state, by the bound",
            "cannot end before the deadline, by the bound",
            "cannot keep to the budget, by the bound"}
PRICES = """profile,usd_per_hour,usd_to_buy,available,region,date,source
dgx-a100,30,,2,east,2026-11-01,"a quote, by mail"
dgx-a100,20,,2,west,2026-11-02,another
rtx4090,,4000,1,,2026-11-03,shop
"""


def space(number):
    draw = random.Random(SEED + number)
    machines = draw.sample(MACHINES, 3)
    question = (f"-m {draw.choice(MODELS)} --tokens {draw.choice(['1B', '20B'])} "
                f"{draw.choice(['', '--global-batch 64'])} "
                f"{draw.choice(['', '--seq 512', '--train lora:8'])}")
    limits = draw.choice(["", f"--deadline {draw.choice([2, 10, 40])}",
                          f"--deadline 60 --budget {draw.choice([20, 300, 3000, 5000])}"])
    over = draw.choice([{}, {}, {"tp": [1, 2, 4]}, {"pp": [1, 2], "prefetch": [1, 6]},
                        {"tiles": [1, 3], "grad-accum": [1, 4]}])
    if "--budget" in limits:
        limits += draw.choice([" --budget-of cash", " --budget-of share"])
    limits += draw.choice(["", " --include discontinued"])
    return machines, question, limits, over


def points(over):
    """Options of every combination."""
    return [" ".join(f"--{name} {value}" for name, value in zip(over, values))
            for values in itertools.product(*over.values())]


def advised(box, machines, question, limits=""):
    answer = box.run(f"advise {question} --machines {','.join(machines)} "
                     f"--max-nodes {NODES_MOST} {limits} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{question}: {answer.err}")
    return json.loads(answer.out), answer.status


def asked(box, machine, nodes, question):
    """Days, cost and what is to be paid, or None if it does not fit or is refused.  Rows of a
    comparison have one software, whatever usually trains with the strategy of each."""
    line = f"simulate {question} -H {machine} --nodes {nodes} --json"
    answer = box.run(line)
    if answer.status not in (0, 2, 3):
        raise RuntimeError(f"{machine} x{nodes}: {answer.err}")
    one = json.loads(answer.out)["answers"][0] if answer.status == 0 else None
    if one and (one["strategy"], one["software"]) == ("ddp", "pytorch-fsdp-eager"):
        one = json.loads(box.run(f"{line} --software deepspeed").out)["answers"][0]
    if not one:
        return None
    owned = one["cost_basis"] == "owned"
    return one["days"], one["cost_usd"], one["owned_cost"]["pay_usd"] if owned else one["cost_usd"]


def nodes_of(advice, machine):
    return [row["nodes"] for row in advice["candidates"] if row["machine"] == machine]


def front_of(rows):
    """Of [(days, cost, who)] those than which no other is better in one and as good in both."""
    front, least = [], math.inf
    for days, cost, who in sorted(rows):
        if cost < least:
            front.append((days, cost, who))
            least = cost
    return front


def check_space(box, number):
    machines, question, limits, over = space(number)
    axes = "".join(f" --over {name}={','.join(map(str, values))}" for name, values in over.items())
    advice, status = advised(box, machines, question, limits + axes)
    deadline = advice["limits"]["days"]
    budget = advice["limits"]["cost_usd"] or math.inf
    cash = advice["limits"]["budget_of"] == "cash"
    if cash == ("share" in limits):
        yield f"{number}: {limits}, {advice['limits']}"
    found = {(row["machine"], row["nodes"], row["over"] or ""): row for row in advice["candidates"]}
    if {who[2] for who in found} != set(points(over)):
        yield f"{number}: {sorted(found)} of {points(over)}"
    tried, within = {}, []
    for machine, nodes, setting in found:
        tried[machine, nodes, setting] = asked(box, machine, nodes, f"{question} {setting}")
    for who, result in tried.items():
        row = found[who]
        for least, least_of in zip(result or (), ("least_days", "least_cost_usd", "least_pay_usd")):
            if least is not None and not row[least_of] <= least * (1 + 1e-9):
                yield f"{number} {who}: bound {row[least_of]} {least_of}, {least} simulated"
        gone = who[0] in DISCONTINUED and "--include" not in limits
        if gone and result and row["verdict"] not in (GONE, *BY_BOUND):
            yield f"{number} {who}: {row['verdict']}"
        if result and result[0] <= deadline and result[1] is not None and not gone and \
                result[2 if cash else 1] <= budget:
            within.append((*result[:2], who))
        if not result and row["verdict"] == "within the limits":
            yield f"{number} {who}: is within the limits, and cannot be simulated"
    expected = front_of(within)
    got = [((row["machine"], row["nodes"], row["over"] or ""), row["days"], row["cost_usd"])
           for row in advice["front"]]
    if status != (0 if expected else 3):
        yield f"{number}: status {status}"
    if not expected:
        return
    # of settings that make no difference one is as good as another
    if [who[:2] for who, _, _ in got] != [who[:2] for _, _, who in expected]:
        yield f"{number} {question} {limits}: front {got}, one by one {expected}"
    for (who, days, cost), (one_days, one_cost, _) in zip(got, expected):
        if not math.isclose(days, one_days) or not math.isclose(cost, one_cost):
            yield f"{number} {who}: {days} days, {cost} USD; simulate: {one_days}, {one_cost}"
    picks = {name: (pick["machine"], pick["nodes"]) for name, pick in advice["picks"].items()}
    if picks["fastest"] != expected[0][2][:2] or picks["cheapest"] != expected[-1][2][:2]:
        yield f"{number}: picks {picks}, one by one {expected}"
    best = max(advice["front"], key=lambda row: row["margin"])
    if picks["least risk"] != (best["machine"], best["nodes"]):
        yield f"{number}: {picks['least risk']} is less of a risk than {best}"


def check_spaces(box):
    """Fronts, picks and bounds of random spaces."""
    for number in sample(list(range(6))):
        yield from check_space(box, number)


def check_nothing_within(box):
    """What is nearest: the least cost in time, and the least time for the money."""
    machines, question = ["dgx-a100", "rtx4090"], "-m gpt2-xl --tokens 20B"
    free, _ = advised(box, machines, question)
    cheapest, fastest = free["picks"]["cheapest"], free["picks"]["fastest"]
    limits = (f"--deadline {fastest['days'] * 1.01} --budget {cheapest['cost_usd'] * 1.01} "
              "--budget-of share")
    tight, status = advised(box, machines, question, limits)
    if status != 3 or tight["feasible"] or tight["picks"]:
        yield f"status {status}: {tight['picks']}"
    [budget], [deadline] = tight["nearest_budget"], tight["nearest_deadline"]
    if (budget["machine"], budget["nodes"]) != (fastest["machine"], fastest["nodes"]):
        yield f"least cost in time: {budget}"
    if (deadline["machine"], deadline["nodes"]) != (cheapest["machine"], cheapest["nodes"]):
        yield f"least time for the money: {deadline}"
    text = box.run(f"advise {question} --machines {','.join(machines)} {limits}").out.decode()
    if "\nbudget        would have to be" not in text or "\ndeadline      would" not in text:
        yield text


def check_cash(box):
    """A budget is what must be paid: the nearest to it, of all candidates asked one by one."""
    machines, question = ["dgx-a100", "rtx4090", "rtx4090-2x"], "-m gpt2-xl --tokens 20B"
    paid = {}
    for machine, nodes in (("dgx-a100", 1), ("rtx4090", 1), ("rtx4090-2x", 1)):
        paid[machine] = asked(box, machine, nodes, question)
    bought = paid["rtx4090"]
    price = 4000 + bought[0] * 24 * 0.65 * 0.16
    if not math.isclose(bought[2], price) or not bought[1] < bought[2]:
        yield f"{bought}, to pay {price}"
    ask = f"{question} --machines {','.join(machines)} --max-nodes 1"
    found = nearest(box, question, f"--machines {','.join(machines)} --max-nodes 1 --budget 20")
    least = min(paid, key=lambda machine: paid[machine][2])
    if found["budget"]["machine"] != least or \
            not math.isclose(found["budget"]["pay_usd"], paid[least][2]):
        yield f"{found['budget']}, of {paid}"
    text = box.run(f"advise {ask} --budget 20").out.decode()
    if "\nbudget        bounds what has to be paid" not in text or \
            "USD of rent, all other limits kept" not in text:
        yield text
    text = box.run(f"advise {question} --machines rtx4090 --max-nodes 1 --budget 20").out.decode()
    if "USD to pay, all other limits kept" not in text:
        yield text
    within = json.loads(box.run(f"advise {question} --machines rtx4090 --max-nodes 1 "
                                f"--budget {price * 1.001} --json").out)
    beyond = box.run(f"advise {question} --machines rtx4090 --max-nodes 1 --budget {price * .999}")
    if not within["feasible"] or beyond.status != 3:
        yield f"{price}: {within['feasible']}, status {beyond.status}"


def check_margin(box):
    """The least share left of each memory, of the deadline and of the budget, by hand."""
    advice = json.loads(box.run("advise -m gpt2-xl --tokens 20B --deadline 60 --budget 5000 --json "
                                "--machines dgx-a100,rtx4090,dgx-h100").out)
    for name, pick in advice["picks"].items():
        left = [1 - pick["days_at_most"] / 60, 1 - pick["pay_usd_at_most"] / 5000]
        beside = pick["answer"].get("software_memory", [])
        for tier, memory in pick["answer"]["tiers"].items():
            taken = memory["peak_bytes"] + sum(b["bytes"] for b in beside if b["tier"] == tier)
            if memory["peak_bytes"]:
                left.append(1 - taken / memory["capacity_bytes"])
        if not math.isclose(pick["margin"], min(left), abs_tol=1e-9):
            yield f"{name}: margin {pick['margin']}, by hand {left}"


def check_discontinued(box):
    """What nobody sells any more is ranked where it is asked for, or has a price of today."""
    ask = "advise -m gpt2-xl --tokens 20B --machines dgx2,rtx4090 --max-nodes 1"

    def verdict(options):
        rows = json.loads(box.run(f"{ask} {options} --json").out)["candidates"]
        return {row["machine"]: row["verdict"] for row in rows if row["nodes"] == 1}

    box.write("used.csv", "profile,usd_to_buy,condition,date\ndgx2,30000,used,2026-11-01\n")
    box.write("gone.csv", "profile,usd_to_buy,condition,date\nrtx4090,4000,discontinued,\n")
    for options, gone in (("", {"dgx2"}), ("--include discontinued", set()),
                          ("--prices used.csv", set()), ("--set node.price_usd=30000", set()),
                          ("--prices gone.csv", {"dgx2", "rtx4090"})):
        found = {machine for machine, text in verdict(options).items() if text == GONE}
        if found != gone:
            yield f"{options}: {verdict(options)}"
    if "--include discontinued ranks" not in box.run(ask).out.decode():
        yield "does not say how to have it ranked"


def nearest(box, question, limits):
    answer = box.run(f"advise {question} {limits} --json")
    if answer.status != 3:
        raise RuntimeError(f"{question} {limits}: status {answer.status}")
    return {key[8:]: rows[0] if rows else None
            for key, rows in json.loads(answer.out).items() if key.startswith("nearest_")}


def check_nearest(box):
    """Power, nodes, drive life, prices: what would have to give, as trying all candidates says."""
    question = "-m gpt2-xl --tokens 20B"
    machines = "--machines gcp-tpu-v5p-8,dgx-a100,rtx4090,aws-g5-12xlarge"
    found = nearest(box, question, f"{machines} --max-power 0.5")
    if (found["power"]["machine"], found["power"]["nodes"]) != ("rtx4090", 1):
        yield f"power {found}"  # 0.65 kW; all others take more, or do not say
    found = nearest(box, question, "--machines gcp-tpu-v5p-8 --max-power 0.5")
    if found["power"]:
        yield f"power of a machine that states none: {found['power']}"
    found = nearest(box, question, "--machines dgx-a100 --max-nodes 1 --deadline 1")
    if found["nodes"]["nodes"] != 2 or found["deadline"]["nodes"] != 1:
        yield f"nodes {found}"
    question = ("-m llama-3.1-70b --tokens 20M --seq 1024 --batch 1 --grad-accum 1 "
                "--software memwall")
    lives = {}
    for machine in ("rtx3090", "rtx4090", "rtx4090-2x"):
        one = json.loads(box.run(f"simulate {question} -H {machine} --json").out)["answers"][0]
        lives[machine] = one["drive_life_steps"] * one["step_time_s"] / 86400
    longest = max(lives, key=lives.get)
    found = nearest(box, question, f"--machines {','.join(lives)} --max-nodes 1 "
                                   f"--min-drive-life {lives[longest] * 1.01}")["drive_life"]
    if found["machine"] != longest or not math.isclose(found["drive_days"], lives[longest]):
        yield f"drive life {found}, of {lives}"


def daly(between, save, restart, every):
    """The complete model: how much longer it takes."""
    return (between * math.exp(restart / between) * math.expm1((every + save) / between) / every)


def lived(draw, between, save, restart, every, segments=4000):
    """How much longer a training takes that is interrupted at random, by living through it."""
    clock, left = 0.0, draw.expovariate(1 / between)
    for _ in range(segments):
        need = every + save
        while left < need:  # the segment is lost; restarts may be interrupted too
            clock += left
            left = draw.expovariate(1 / between)
            need = restart + every + save
        clock, left = clock + need, left - need
    return clock / segments / every


def check_spot(box):
    """The interval that loses least, the time that it leaves, and what it costs, by hand."""
    draw = random.Random(SEED)
    for between, save, restart in ((5400, 27, 87), (900, 60, 120)):
        every = math.sqrt(2 * save * between)
        times = daly(between, save, restart, every)
        if abs(lived(draw, between, save, restart, every) / times - 1) > 0.03:
            yield f"{between} {save} {restart}: {times}, and not when lived through"
    ask = "advise -m gpt2-xl --tokens 20B --machines nebius-h100-8x,dgx-a100 --max-nodes 2 --json"
    rows = {row["nodes"]: row for row in json.loads(box.run(f"{ask} --pay spot").out)["candidates"]
            if row["machine"] == "nebius-h100-8x"}
    for nodes, row in rows.items():
        one, *_ = asked(box, "nebius-h100-8x", nodes, "-m gpt2-xl --tokens 20B")
        by = row.get("interruptions")
        if not by:
            continue
        between = 86400 / (4 * nodes)
        times = daly(between, by["save_s"], by["restart_s"], by["every_s"])
        if not math.isclose(by["times"], times) or by["restart_s"] < by["save_s"] + 60:
            yield f"{by}: {times} times"
        for every in (by["every_s"] * 0.98, by["every_s"] * 1.02):
            if daly(between, by["save_s"], by["restart_s"], every) < times:
                yield f"{by}: every {every} s is better"
        if not math.isclose(row["days"], one * times, rel_tol=1e-6):
            yield f"{row['days']} days, {one} without interruptions"
        if not math.isclose(row["cost_usd"], row["days"] * 24 * 10 * nodes, rel_tol=1e-6):
            yield f"{row['cost_usd']} USD for {row['days']} days of 10 USD an hour"
        other = json.loads(box.run(f"{ask} --pay spot --interruptions 1 --checkpoint-every 30").out)
        [less] = [r for r in other["candidates"] if r["machine"] == row["machine"]
                  and r["nodes"] == nodes]
        if less.get("interruptions") and (less["interruptions"]["every_s"] != 1800 or
                                          less["interruptions"]["per_day"] != nodes):
            yield f"{less['interruptions']}"
    if not any("interruptions" in row for row in rows.values()):
        yield f"nothing was interrupted: {rows}"
    advice = json.loads(box.run(f"{ask} --pay spot").out)
    if any(r["verdict"] != "have no price" for r in advice["candidates"]
           if r["machine"] == "dgx-a100"):
        yield "a machine without a price of spot is compared"
    line = f"{ask} --pay spot --set node.spot_price_usd_per_hour="
    advice = json.loads(box.run(f"{line}20").out)
    paid = {r["cost_usd"] / r["days"] / 24 / r["nodes"] for r in advice["front"]}
    if not paid or not all(math.isclose(each, 20) for each in paid):
        yield f"spot at 20 USD an hour: {paid}"
    yield from refused(box.run(f"{line}0"), ["--pay spot", "usd_per_hour_spot"])
    box.write("prices.csv", "profile,usd_per_hour_spot\nnebius-h100-8x,5\n")
    advice = json.loads(box.run(f"{ask} --pay spot --prices prices.csv").out)
    row = advice["picks"]["cheapest"]
    if not math.isclose(row["cost_usd"], row["days"] * 24 * 5 * row["nodes"], rel_tol=1e-6):
        yield f"prices.csv: {row}"


def check_step(box, question, advice, row):
    """A step is what `simulate` says with its options."""
    answer = box.run(f"simulate {question} {row['options']} --json")
    if answer.status not in (0, 2, 3):
        yield f"{row['what']}: {answer.err}"
        return
    one = json.loads(answer.out)["answers"][0] if answer.status == 0 else None
    if row["fits"] != (one is not None):
        yield f"{row['what']}: fits {row['fits']}, {row['options']}"
        return
    if one and not math.isclose(one["tokens_per_s"], row["tokens_per_s"], rel_tol=1e-9):
        yield f"{row['what']}: {row['tokens_per_s']}, simulated {one['tokens_per_s']} tokens/s"
    now = advice["now"]
    if one and row["usd_per_hour"]:
        per_usd = one["tokens_per_s"] * 3600 / row["usd_per_hour"]
        if not math.isclose(row["tokens_per_usd"], per_usd):
            yield f"{row['what']}: {row['tokens_per_usd']} tokens per USD"
        if row["tokens_per_s_per_1000_usd"] is not None:
            yield f"{row['what']}: is rented, and is bought"
    elif one and now["fits"] and row["usd"]:
        gained = (row["tokens_per_s"] - now["tokens_per_s"]) / row["usd"] * 1000
        if not math.isclose(gained, row["tokens_per_s_per_1000_usd"]):
            yield f"{row['what']}: {row['tokens_per_s_per_1000_usd']} per 1000 USD, {gained}"
        if row["tokens_per_usd"] is not None:
            yield f"{row['what']}: is bought, and is rented"


def check_evidence(found):
    """The star is the fastest that was simulated, and no other row is by its closed form."""
    tried = [row for row in found["rows"] if row["step_time_s"]]
    ratios = [row["step_time_s"] / row["closed_form_s"] for row in tried]
    star, seen = found["rows"][found["fastest"]], found["evidence"]
    said = (seen["least_ratio"], seen["most_ratio"], seen["floor_s"])
    right = (min(ratios), max(ratios), min(ratios) * found["rows"][0]["closed_form_s"])
    if seen["simulated"] != len(tried) or not all(map(math.isclose, said, right)):
        yield f"{seen}, of {ratios}"
    if star["step_time_s"] != min(row["step_time_s"] for row in tried) or len(tried) < 4:
        yield f"{star} of {tried}"
    if not 0 < seen["proven_floor_s"] < star["step_time_s"]:
        yield f"{star}, {seen}"
    left = [row["closed_form_s"] for row in found["rows"] if not row["step_time_s"]]
    if seen["untried_s"] is not None or min(left) < star["step_time_s"]:
        yield f"{left}, {star}, {seen}"


def check_parallel(box):
    """Every point is counted once, the first row is the fastest, and simulate says the same."""
    question = "-m gpt2-medium -H dgx-a100 --gpus 4"  # with options of software and batch
    answer = box.run(f"advise {question} --search parallel --over tp=1,2 --over pp=1,2 --json")
    found = json.loads(answer.out)
    points = dict(found["points"])
    if points.pop("all") != sum(points.values()) or not found["rows"] or answer.status:
        yield f"{points}, status {answer.status}"
    steps = [row["closed_form_s"] for row in found["rows"]]
    if steps != sorted(steps) or found["gap"] != 0 or found["bound_s"] < steps[0]:
        yield f"{steps}, bound {found['bound_s']}, gap {found['gap']}"
    if {(row["tp"], row["pp"]) for row in found["rows"]} != {(1, 1), (1, 2), (2, 1), (2, 2)}:
        yield f"{found['rows']}"
    fastest = found["rows"][found["fastest"]]
    [one] = json.loads(box.run(f"simulate {question} {fastest['options']} --json").out)["answers"]
    if not math.isclose(one["step_time_s"], fastest["step_time_s"], rel_tol=1e-9):
        yield f"{fastest}: simulate says {one['step_time_s']}"
    if one["settings"]["tokens_per_step"] != found["tokens_per_step"]:
        yield f"{fastest}: {found['tokens_per_step']} tokens, simulate says {one['settings']}"
    for row in found["rows"]:
        if box.run(f"plan {question} {row['options']}").status:
            yield f"{row['options']}: does not fit"
    yield from check_evidence(found)
    answer = box.run("advise -m gpt2 -H dgx-a100 --gpus 2 --software deepspeed --global-batch 2 "
                     "--search parallel --over sequence-parallel=on --json")
    points = json.loads(answer.out)["points"]
    if answer.status != 3 or points["not_offered"] != points["all"]:
        yield f"what deepspeed lacks: status {answer.status}: {points}"
    found = json.loads(box.run("advise -m gpt2 -H dgx-a100 --gpus 2 --software memwall "
                               "--global-batch 2 --search parallel --over tp=2 "
                               "--over sequence-parallel=on --json").out)
    if found["points"]["not_offered"] or not found["rows"] or \
            any("--sequence-parallel on" not in row["options"] for row in found["rows"]):
        yield f"what memwall has, if not by default: {found}"
    line = ("advise -m gpt3-13b -H dgx-a100 --nodes 8 --global-batch 65536 --search parallel "
            "--over batch=0.125 --over pp=8 --over tp=8 --over schedule=1f1b")
    answer = box.run(line)
    if answer.status or b"too many ops" not in answer.out or b"--pp 8 --batch" not in answer.out:
        yield f"too many ops: status {answer.status}: {answer.out}"
    answer = box.run("advise -m llama-3.1-405b -H rtx4090 --global-batch 1 --search parallel "
                     "--json")
    found = json.loads(answer.out)
    if answer.status != 3 or found["feasible"] or found["rows"] or found["gap"] is not None:
        yield f"status {answer.status}: {found}"


# One micro-batch a step: an answer takes a tenth of a second.
QUICK = "--seq 1024 --batch 1 --grad-accum 1"
OWNED = [(f"-m llama-3.1-70b --tokens 20M {QUICK}", "rtx4090"),
         (f"-m llama-3.1-8b --tokens 1B {QUICK}", "2xrtx4090,ram=64,nvme=1x2TB,pcie=4x8"),
         (f"-m llama-3.1-8b --tokens 1B {QUICK}", "runpod-l40s")]


def check_owned(box):
    """Each step and pair, its price and what it brings; in order."""
    for question, machine in sample(OWNED):
        answer = box.run(f"advise {question} -H {machine} --json")
        advice = json.loads(answer.out)
        if answer.status or not advice["steps"]:
            yield f"{machine}: status {answer.status}: {advice}"
        for row in [advice["now"], *sample(advice["steps"]), *sample(advice["pairs"])]:
            yield from check_step(box, question, advice, row)
        key = "tokens_per_usd" if advice["rented"] else "tokens_per_s_per_1000_usd"
        worth = [row for row in advice["steps"] if row["gains"] and row[key] is not None]
        if worth != sorted(worth, key=lambda row: -row[key]):
            yield f"{machine}: order {worth}"
        whats = [row["what"] for row in advice["steps"]]
        if machine == "rtx4090" and not all(any(part in what for what in whats) for part in (
                "one more drive", "more host memory", "one more card", "rtx5090", "one more node")):
            yield f"{machine}: {whats}"


def check_rented_budget(box):
    """The budget of a rented machine is what its training costs, of all steps."""
    question = f"advise -m llama-3.1-8b --tokens 1B {QUICK} -H nebius-h100"
    advice = json.loads(box.run(f"{question} --json").out)
    costs = sorted(row["cost_usd"] for row in advice["steps"] if row["gains"])
    within = box.run(f"{question} --budget {costs[0] * 1.01}").out.decode()
    beyond = box.run(f"{question} --budget {costs[0] * 0.99}").out.decode()
    if "\nrent  " not in within or within.count("over the budget") < len(costs) - 1:
        yield f"{costs}: {within}"
    if "no step gains within the limits" not in beyond:
        yield f"{costs}: {beyond}"


def check_damaged_parts(box):
    """What memwall knows of parts is damaged: said, not passed over."""
    box.write("data/hwprofiles/parts.csv", "profile,usd_to_buy\npart:drive,two\n")
    answer = box.run(f"advise -m gpt2 --tokens 1M {QUICK} -H rtx4090",
                     MEMWALL_DATA=str(box.folder / "data"))
    yield from refused(answer, ["parts.csv, line 2", "usd_to_buy", "two"])


def check_part_prices(box):
    """The file of prices goes before what is known, and gives what is not known."""
    question = f"advise -m llama-3.1-70b --tokens 20M {QUICK} -H rtx4090 --json"
    box.write("prices.csv", "profile,usd_to_buy,usd_to_buy_least,usd_to_buy_most,date\n"
                            "part:drive,50,40,70,2026-11-01\npart:network:100,600,,,\n"
                            "rtx4090,3000,,,\n")
    known = {row["what"]: row for row in json.loads(box.run(question).out)["steps"]}
    mine = {row["what"]: row for row in
            json.loads(box.run(f"{question} --prices prices.csv").out)["steps"]}
    drive, node = "one more drive of 4 TB", "one more node, 100 Gb/s between them"
    if (mine[drive]["usd"], mine[drive]["usd_least"], mine[drive]["usd_most"]) != (200, 160, 280):
        yield f"{mine[drive]}"
    if "prices.csv, line 2, 2026-11-01" not in mine[drive]["price_from"]:
        yield f"{mine[drive]['price_from']}"
    if "parts.csv, line" not in known[drive]["price_from"] or not known[drive]["usd"] > 200:
        yield f"{known[drive]}"
    if known[node]["usd"] is not None or known[node]["unpriced"] != "part:network:100":
        yield f"{known[node]}"
    if mine[node]["usd"] != 2 * 600 + 3000:
        yield f"{mine[node]}"


def check_pairs(box):
    """Where no step alone makes room, two do; and a model that nothing makes room for."""
    question = (f"advise -m llama-3.1-70b --tokens 1M {QUICK} -H 1xrtx4090,ram=32,nvme=1x1TB "
                "--software memwall --json")
    answer = box.run(question)
    advice = json.loads(answer.out)
    alone = [row for row in advice["steps"] if row["gains"]]
    for pair in advice["pairs"]:
        if not pair["gains"] or any(row["what"] in pair["what"] for row in alone):
            yield f"{pair}"
    if not advice["pairs"] and not alone:
        yield f"nothing fits: {advice}"
    answer = box.run(f"advise -m llama-3.1-405b --tokens 1M {QUICK} "
                     "-H 1xrtx4090,ram=16,nvme=1x500GB --json")
    advice = json.loads(answer.out)
    if answer.status != 3 or advice["feasible"] or advice["now"]["fits"]:
        yield f"status {answer.status}"


def check_prices(box):
    """A file of prices: what it says counts, with its line and date; by region and way to pay."""
    box.write("prices.csv", PRICES)
    ask = "advise -m gpt2 --tokens 1B --prices prices.csv --machines priced --json"
    rows = json.loads(box.run(ask).out)["candidates"]
    if {row["machine"] for row in rows} != {"dgx-a100", "rtx4090"}:
        yield f"machines {rows}"
    if max(row["nodes"] for row in rows) != 2:
        yield "more nodes than there are"
    for region, price, line in (("", 20, 3), ("--region east", 30, 2), ("--region we*", 20, 3)):
        advice = json.loads(box.run(f"{ask} {region}").out)
        [row] = [r for r in advice["candidates"] if r["machine"] == "dgx-a100" and r["nodes"] == 1]
        if not row["price_from"].startswith(f"prices.csv, line {line}, "):
            yield f"{region}: {row['price_from']}"
        if row.get("days") and not math.isclose(row["cost_usd"], row["days"] * 24 * price):
            yield f"{region}: {row['cost_usd']} USD for {row['days']} days"
    box.write("prices.csv", "profile,usd_per_hour,usd_per_hour_spot,usd_to_buy,region\n"
                            "dgx-a100,30,5,300000,a\ndgx-a100,20,8,250000,b\n"
                            "dgx-a100,40,9,200000,c\ndgx-a100,,7,900000,d\n")
    for pay, line in (("spot", 2), ("rent", 3), ("any", 3), ("buy", 4)):
        [row, *_] = json.loads(box.run(f"{ask} --pay {pay}").out)["candidates"]
        if not row["price_from"].startswith(f"prices.csv, line {line}, "):
            yield f"--pay {pay}: {row['price_from']}"
    box.write("prices.csv", "profile,usd_per_hour,,\ndgx-a100,30,,\nfuture-9000,5\n"
                            "4xrtx4090,3\npart:card:rtx9090,4\n")
    answer = box.run(ask)
    known = {row["machine"] for row in json.loads(answer.out)["candidates"]}
    if known != {"dgx-a100", "4xrtx4090"} or answer.status or \
            "future-9000 (line 3), part:card:rtx9090 (line 5)" not in str(answer.err):
        yield f"machines of a later version: {known}, {answer.err}"
    for pay, word in (("rent", True), ("buy", False)):
        advice = json.loads(box.run(f"advise -m gpt2 --tokens 1B --machines rtx4090,dgx-a100,a100 "
                                    f"--pay {pay} --json").out)
        if any(row["rented"] != word for row in advice["front"]):
            yield f"--pay {pay}: {advice['front']}"


BAD_PRICES = {
    "": ["prices.csv", "has no", "column"],
    "profile,usd_per_hour\n": ["no line with a price"],
    "machine,price\na100,2\n": ["line 1", "profile", "usd_per_hour"],
    "profile,usd_per_hour\na100,two\n": ["line 2", "usd_per_hour", "two"],
    "profile,usd_per_hour\na100,-1\n": ["line 2", "-1"],
    "profile,usd_per_hour\na100,0\n": ["line 2", "no price"],
    "profile,usd_per_hour\n,2\n": ["line 2", "profile"],
    'profile,usd_per_hour\n"a100,2\n': ["line 2", "quote"],
    "profile,usd_to_buy\npart:gadget,2\n": ["line 2", "part:gadget", "part:memory"],
    "profile,usd_to_buy,usd_to_buy_least\npart:drive,2,3\n": ["line 2", "range", "part:drive"],
    "profile,usd_per_hour\nno-such-machine,2\n": ["--machines priced", "no-such-machine"],
    "profile,usd_per_hour\na100,2,3\n": ["line 2, column 3", "3", "2 columns", "quotes"],
    "profile,usd_per_hour,profile\na100,2,a100\n": ["line 1", "profile", "twice"],
    "profile,usd_per_hour\na100,2\na100,3\n": ["line 3", "a100", "line 2", "region"],
    "profile,usd_to_buy,condition\na100,2,old\n": ["line 2", "condition", "old", "used"],
    "profile,usd_to_buy\npart:drive,2\n": ["--machines priced", "parts"],
}


def check_bad_input(box):
    """One line each, and nothing asked."""
    for line, words in (
            ("advise --tokens 1B", ["-m MODEL"]),
            ("advise -m gpt2", ["--tokens", "missing"]),
            ("advise -m gpt2 --tokens 1B --machines no-such", ["no-such"]),
            ("advise -m gpt2 --tokens 1B --machines no-such-*", ["--machines", "no-such-*"]),
            ("advise -m gpt2 --tokens 1B --machines priced", ["--prices"]),
            ("advise -m gpt2 --tokens 1B --deadline 0", ["--deadline", "days"]),
            ("advise -m gpt2 --tokens 1B --budget -3", ["--budget", "USD"]),
            ("advise -m gpt2 --tokens 1B --max-nodes 1.5", ["--max-nodes", "whole"]),
            ("advise -m gpt2 --tokens 1B --max-power x", ["--max-power", "kW"]),
            ("advise -m gpt2 --tokens 1B --pay loan", ["--pay", "rent, spot, buy or any"]),
            ("advise -m gpt2 --tokens 1B --budget-of rent", ["--budget-of", "cash or share"]),
            ("advise -m gpt2 --tokens 1B --include all", ["--include", "discontinued"]),
            ("advise -m gpt2 --tokens 1B -H a100 --budget-of cash", ["-H", "--budget-of"]),
            ("simulate -m gpt2 -H a100 --include discontinued", ["--include"]),
            ("advise -m gpt2 --tokens 1B -H a100 --machines dgx2", ["-H", "--machines"]),
            ("advise -m gpt2 --tokens 1B -H a100 --max-power 2", ["-H", "--max-power"]),
            ("advise -m gpt2 --tokens 1B -H a100 --pay spot", ["-H", "--pay"]),
            ("advise -m gpt2 --tokens 1B -H no-such", ["no-such"]),
            ("advise -m gpt2 -H a100", ["--tokens", "missing"]),
            ("advise -m gpt2 --tokens 1B --gpus 2", ["--gpus"]),
            ("advise -m gpt2 --tokens 1B --interruptions 2", ["--interruptions", "--pay spot"]),
            ("advise -m gpt2 --tokens 1B --checkpoint-every 2", ["--pay spot"]),
            ("advise -m gpt2 --tokens 1B --machines rtx4090 --pay spot",
             ["--pay spot", "--prices", "usd_per_hour_spot"]),
            ("advise -m gpt2 --tokens 1B --machines gh200 --pay buy", ["usd_to_buy"]),
            ("advise -m gpt2 --tokens 1B --min-drive-life -1", ["--min-drive-life", "days"]),
            ("advise -m gpt2 --tokens 1B --over nodes=1,2", ["--over", "nodes", "tp"]),
            ("advise -m gpt2 --tokens 1B --over tp=x", ["tp", "x"]),
            ("advise -m gpt2 --tokens 1B --over tq=1", ["tq"]),
            ("advise -m gpt2 --tokens 1B --over seq=1..2000", ["--over", "1000"]),
            ("simulate -m gpt2 -H a100 --over tp=1", ["--over"]),
            ("advise -m gpt2 --tokens 1B --nodes 2", ["--nodes", "--max-nodes"]),
            ("advise -m gpt2 --tokens 1B --serve 100", ["--serve"]),
            ("advise -m gpt2 --tokens 1B --prices none.csv", ["none.csv"]),
            ("sweep -m gpt2 -H a100 --over deadline=1,2", ["deadline", "cannot be swept"]),
            ("advise -m gpt2 --search parallel", ["--search parallel", "-H"]),
            ("advise -m gpt2 --search all -H a100", ["--search all", "machines or parallel"]),
            ("advise -m gpt2 --search parallel -H a100 --tp 2", ["--tp 2", "--over tp=2"]),
            ("advise -m gpt2 --search parallel -H a100 --grad-accum 2", ["--grad-accum 2"]),
            ("advise -m gpt2 --search parallel -H a100 -s l2l", ["-s l2l", "zero3"]),
            ("advise -m gpt2 --search parallel -H a100 --over tiles=1,2", ["--over", "tiles"]),
            ("advise -m gpt2 --search parallel -H a100 --over tp=3", ["--over", "divide the GPUs"]),
            ("advise -m gpt2 --search parallel -H a100 --over shard-group=4", ["--over", "groups"]),
            ("advise -m gpt2 --search parallel -H a100 --over batch=0.3", ["--global-batch 488"]),
            ("advise -m gpt2 --search parallel -H dgx-a100 --over schedule=zb-h1",
             ["1f1b, gpipe, interleaved"]),
            ("advise -m gpt2 --search parallel -H a100 --global-batch 1000000000",
             ["--global-batch 1000000000", "at most 65536"]),
            ("advise -m gpt2 --search parallel -H dgx-a100 --over tp=8", ["--tp 8", "heads, 12"]),
            ("advise -m gpt2 --search parallel -H a100 --over schedule=zb-h1,gpipe",
             ["schedule=zb-h1", "1f1b, gpipe, interleaved"]),
            ("advise -m gpt2 --search parallel -H a100 --machines a100", ["--machines"]),
            ("advise -m gpt2 --search parallel -H a100 --max-nodes 2", ["--max-nodes"]),
            ("advise -m gemma-3-4b --search parallel -H a100", ["gemma-3-4b", "alike"]),
            ("simulate -m gpt2 -H a100 --search parallel", ["--search"]),
            ("sweep -m gpt2 -H a100 --over search=parallel", ["search", "cannot be swept"]),
            ("advise -m gpt2 --tokens 1B x", ["x"])):
        yield from refused(box.run(line), words)
    for text, words in list(BAD_PRICES.items())[1:]:
        box.write("prices.csv", text)
        answer = box.run("advise -m gpt2 --tokens 1B --prices prices.csv --machines priced")
        yield from refused(answer, words)


def tests(box):
    yield "spaces", check_spaces(box)
    yield "nothing-within", check_nothing_within(box)
    yield "margin", check_margin(box)
    yield "nearest", check_nearest(box)
    yield "spot", check_spot(box)
    yield "parallel", check_parallel(box)
    yield "owned", check_owned(box)
    yield "rented-budget", check_rented_budget(box)
    yield "part-prices", check_part_prices(box)
    yield "damaged-parts", check_damaged_parts(box)
    yield from unless_few(("cash", check_cash(box)), ("discontinued", check_discontinued(box)),
                          ("prices", check_prices(box)), ("pairs", check_pairs(box)))
    yield "bad-input", check_bad_input(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
