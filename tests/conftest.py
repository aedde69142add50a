"""What every test may count on, however the runner was started."""

import os
import signal

import hypothesis

# A shell starts what goes to its background with Ctrl-C ignored, and programs started from there inherit that; the
# tests press Ctrl-C. A handler of our own is not inherited, so programs that tests start are as in a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a change is judged by what it changed; BURNISH_EXPLORE=1 looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True)
if not os.environ.get("BURNISH_EXPLORE"):
    hypothesis.settings.load_profile("steady")
