"""The parts of schedule_faults: a world whose time is in our hands, and a daemon that is killed."""
