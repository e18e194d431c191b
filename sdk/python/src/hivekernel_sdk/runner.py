"""`python -m hivekernel_sdk.runner --agent module:Class --core ADDRESS`: the command by which HiveKernel's kernel starts agents."""

from skep.runner import main

if __name__ == "__main__":
    main()
