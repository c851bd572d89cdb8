"""
A dataset, here and through the service. How to run it from the tree is in the README beside it.
"""

import millrace as mr


def main() -> None:
    ds = mr.Dataset.range(10).map(lambda x: {"n": x, "square": x * x}).shuffle(10, seed=1).batch(4)
    print("elements:", ds.element_spec)
    for batch in ds:
        print("  here:  ", batch["n"], batch["square"])

    with mr.service.DispatchServer() as dispatcher:
        config = mr.service.WorkerConfig(dispatcher.address)
        with mr.service.WorkerServer(config), mr.service.WorkerServer(config):
            print("service:", dispatcher.target)
            shared = ds.apply(
                mr.service.distribute("distributed_epoch", dispatcher.target, job_name="quickstart")
            )
            for epoch in range(2):
                for batch in shared:
                    print(f"  epoch {epoch}:", batch["n"], batch["square"])


if __name__ == "__main__":
    main()
