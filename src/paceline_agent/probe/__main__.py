"""python -m paceline_agent.probe: one worker of a probe."""

from paceline_agent.probe.sweep import main

if __name__ == "__main__":
    main()
