#!/usr/bin/python3
"""`memwall advise` is what trying every machine and number of nodes gives; prints TAP.

Random small spaces are searched, and asked one by one with `simulate`.
"""
import json
import math
import random
import sys

from command import Box, refused, sample
from tap import report_in

SEED = 20261128
MACHINES = ["a100", "aws-g5-12xlarge", "aws-g6e-12xlarge", "dgx-a100", "dgx1v", "gh200",
            "lambda-h100", "mi300x", "rtx3090", "rtx4090", "rtx4090-8x", "rtx5090"]
MODELS = ["gpt2", "gpt2-medium", "gpt2-xl", "llama-3.2-1b"]
NODES_MOST = 4
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
                          f"--deadline 60 --budget {draw.choice([20, 300, 3000])}"])
    return machines, question, limits


def advised(box, machines, question, limits=""):
    answer = box.run(f"advise {question} --machines {','.join(machines)} "
                     f"--max-nodes {NODES_MOST} {limits} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{question}: {answer.err}")
    return json.loads(answer.out), answer.status


def asked(box, machine, nodes, question):
    """Days and cost, or None if it does not fit or is refused."""
    answer = box.run(f"simulate {question} -H {machine} --nodes {nodes} --json")
    if answer.status not in (0, 2, 3):
        raise RuntimeError(f"{machine} x{nodes}: {answer.err}")
    one = json.loads(answer.out)["answers"][0] if answer.status == 0 else None
    return (one["days"], one["cost_usd"]) if one else None


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
    machines, question, limits = space(number)
    advice, status = advised(box, machines, question, limits)
    deadline = advice["limits"]["days"]
    budget = advice["limits"]["cost_usd"] or math.inf
    found = {(row["machine"], row["nodes"]): row for row in advice["candidates"]}
    tried, within = {}, []
    for machine, nodes in found:
        tried[machine, nodes] = asked(box, machine, nodes, question)
    for who, result in tried.items():
        row = found[who]
        if result and not row["least_days"] <= result[0] * (1 + 1e-9):
            yield f"{number} {who}: bound {row['least_days']} days, {result[0]} simulated"
        if result and result[0] <= deadline and result[1] is not None and result[1] <= budget:
            within.append((*result, who))
        if not result and row["verdict"] == "within the limits":
            yield f"{number} {who}: is within the limits, and cannot be simulated"
    expected = front_of(within)
    got = [((row["machine"], row["nodes"]), row["days"], row["cost_usd"])
           for row in advice["front"]]
    if status != (0 if expected else 3):
        yield f"{number}: status {status}"
    if not expected:
        return
    if [who for who, _, _ in got] != [who for _, _, who in expected]:
        yield f"{number} {question} {limits}: front {got}, one by one {expected}"
    for (who, days, cost), (one_days, one_cost, _) in zip(got, expected):
        if not math.isclose(days, one_days) or not math.isclose(cost, one_cost):
            yield f"{number} {who}: {days} days, {cost} USD; simulate: {one_days}, {one_cost}"
    picks = {name: (pick["machine"], pick["nodes"]) for name, pick in advice["picks"].items()}
    if picks["fastest"] != expected[0][2] or picks["cheapest"] != expected[-1][2]:
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
    limits = f"--deadline {fastest['days'] * 1.01} --budget {cheapest['cost_usd'] * 1.01}"
    tight, status = advised(box, machines, question, limits)
    if status != 3 or tight["feasible"] or tight["picks"]:
        yield f"status {status}: {tight['picks']}"
    [budget], [deadline] = tight["nearest_budget"], tight["nearest_deadline"]
    if (budget["machine"], budget["nodes"]) != (fastest["machine"], fastest["nodes"]):
        yield f"least cost in time: {budget}"
    if (deadline["machine"], deadline["nodes"]) != (cheapest["machine"], cheapest["nodes"]):
        yield f"least time for the money: {deadline}"
    text = box.run(f"advise {question} --machines {','.join(machines)} {limits}").out.decode()
    if "the least cost is" not in text or "the fastest takes" not in text:
        yield text


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
    "profile,usd_per_hour\nno-such-machine,2\n": ["no-such-machine"],
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
            ("advise -m gpt2 --tokens 1B --pay loan", ["--pay", "rent, buy or any"]),
            ("advise -m gpt2 --tokens 1B -H a100", ["-H", "--machines"]),
            ("advise -m gpt2 --tokens 1B --nodes 2", ["--nodes", "--max-nodes"]),
            ("advise -m gpt2 --tokens 1B --serve 100", ["--serve"]),
            ("advise -m gpt2 --tokens 1B --prices none.csv", ["none.csv"]),
            ("sweep -m gpt2 -H a100 --over deadline=1,2", ["deadline", "cannot be swept"]),
            ("advise -m gpt2 --tokens 1B x", ["x"])):
        yield from refused(box.run(line), words)
    for text, words in list(BAD_PRICES.items())[1:]:
        box.write("prices.csv", text)
        answer = box.run("advise -m gpt2 --tokens 1B --prices prices.csv --machines priced")
        yield from refused(answer, words)


def tests(box):
    yield "spaces", check_spaces(box)
    yield "nothing-within", check_nothing_within(box)
    yield "prices", check_prices(box)
    yield "bad-input", check_bad_input(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
