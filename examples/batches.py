"""How the speed of a model on a machine goes with its batch: what a notebook plots."""
import memwall


def main():
    print(f"{'batch':>5} {'tokens/s':>9} {'GPU memory':>11}  strategy")
    for batch in (1, 2, 4):
        answer = memwall.simulate(model="llama-3.1-8b", hardware="rtx4090", seq=2048, batch=batch,
                                  keys={"host.memory_gib": 256})
        print(f"{batch:>5} {answer.tokens_per_s:>9.0f} {answer.peak_bytes.gpu / 1e9:>8.1f} GB  "
              f"{answer.strategy}")


if __name__ == "__main__":
    main()
