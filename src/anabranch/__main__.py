"""`python -m anabranch`: the command, where its script is not on the path."""

from anabranch_command import main

if __name__ == "__main__":
    raise SystemExit(main())
