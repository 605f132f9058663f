"""Names, units and definitions of the SKIP figures, printed beside every value."""

from __future__ import annotations

from typing import Final

DEFINITIONS: Final = {
    "n_kernels": "device events with good times (kernels, collectives, copies, fills)",
    "n_kernels_with_launch": "kernels whose correlation id joins a launch call",
    "n_launches": "launch calls that a kernel joins; a graph launch counts once",
    "kernel_time_ps": "sum of kernel durations; overlapping kernels count twice",
    "akd_ps": "AKD: mean kernel duration (whole picoseconds)",
    "tklqt_ps": "TKLQT: sum of launch-to-start times t_l (start of the first kernel of a launch "
    "less start of its call), once per launch",
    "tklqt_per_kernel_ps": "TKLQT as in the paper: sum of t_l over all kernels, each kernel of a "
    "graph launch counted from the one call",
    "tklqt_call_ps": "part of TKLQT that is the launch call itself",
    "tklqt_floor_ps": "part of TKLQT that is the least time from call to kernel seen on a stream "
    "that had run dry",
    "tklqt_queue_ps": "rest of TKLQT: the kernel waited behind other work, not for its launch",
    "median_t_l_ps": "lower median of t_l over launches; negative: clocks can't be compared",
    "n_negative_t_l": "launches whose kernel starts before the call (clock skew); their t_l is 0",
    "il_ps": "IL: end of the step's last kernel less start of its first host event (the step "
    "marker, else the first launch call)",
    "gpu_idle_paper_ps": "GPU idle as in the paper: IL less the sum of kernel durations; negative "
    "when streams overlap",
    "gpu_idle_ps": "GPU idle: time of IL in which no kernel runs on the device",
    "host_idle_ps": "host idle: time of IL in which the launching and dispatching threads have no "
    "event other than step markers, or only wait",
    "step_ps": "length of the step on the device, from the end of the step before",
    "step_less_kernel_time_ps": "length of the step less the sum of kernel durations",
}
UNITS: Final = {name: "ps" if name.endswith("_ps") else "count" for name in DEFINITIONS}
