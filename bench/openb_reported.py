"""What the authors of FGD (USENIX ATC'23) recorded from their simulator's replays of openb.

Source: hkust-adsl/kubernetes-scheduler-simulator at 8f3d6417 (Apache-2.0), below
experiments/analysis/expected_results: analysis_allo_discrete.csv (figure 9(a) of the paper, and 11
to 14 at 100 %), analysis_frag_discrete.csv and analysis_frag_ratio_discrete.csv (both in figure 7).
Each row there is a run: a pod list, a policy, one of the seeds 42 to 51, ratio 1.3, 6,212 GPUs; its
columns are the load, the requests of arrived pods in percent of all GPUs. The figures here are
medians of the ten seeds, like the lines of the paper, rounded to two decimals; none is read from a
picture. Not available was analysis_fail.csv, the refused pods (figure 9(c)).

The abstract's "unallocated GPUs by up to 49 %" and "additional 290 GPUs" compare FGD with
dot-product on the default list at 100 %: 4.77 against 9.44 % unallocated, and 4.67 % of 6,212 GPUs.

How the runs were made (experiments/run_scripts/generate_run_scripts.py, pkg/simulator/simulator.go,
core.go): the pods of the list in random order, then pods drawn from the list until they ask for 130
% of the GPUs; no pod ends, and a refused pod does not return; a list that asks for more is cut to
130 % by leaving out random pods. Node names get a random number as prefix; among nodes with the
best score, an integer from 0 to 100, the first name is taken
(vendor/k8s.io/kubernetes/pkg/scheduler/core/generic_scheduler.go). FGD's task mix, also used for
all figures of fragmentation, is the most frequent shapes of pods that together are 95 % of the
list.
"""

from collections.abc import Mapping

__all__ = ["ALLOCATED", "ALLOCATED_AT_100", "EXAMPLE", "FRAGMENTED", "FRAGMENTED_OF_IDLE"]

Curves = Mapping[str, Mapping[str, Mapping[int, float]]]


def _curves(table: str) -> Curves:
    """By pod list, policy and load in percent."""
    header, *rows = (line.split() for line in table.strip().splitlines())
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for pods, policy, *values in rows:
        figures = zip(map(int, header[2:]), map(float, values), strict=True)
        curves.setdefault(pods, {})[policy] = dict(figures)
    return curves


#: Allocated GPUs in percent of all.
ALLOCATED = _curves("""
list        policy         20    40    50    60    70    80    90    95   100   110   120   130
default     random      19.99 40.02 49.99 59.79 69.35 78.76 85.03 85.68 86.25 86.77 87.16 87.38
default     dot-product 19.99 40.02 50.01 60.00 70.00 80.01 89.98 90.53 90.56 90.63 90.71 90.80
default     clustering  19.99 40.02 50.01 60.00 70.00 80.01 90.00 91.53 91.58 91.66 91.73 91.79
default     packing     19.99 40.02 50.01 60.00 70.00 80.01 90.00 91.77 91.81 91.88 91.95 92.06
default     best-fit    19.99 40.02 50.01 60.00 70.00 80.01 90.01 92.86 92.91 92.98 93.04 93.11
default     fgd         19.99 40.02 50.01 60.00 70.00 80.01 90.00 94.91 95.23 95.32 95.37 95.40
gpushare100 random      19.99 40.00 50.00 60.01 70.00 76.82 78.25 78.70 78.93 79.16 79.33 79.47
gpushare100 dot-product 19.99 40.00 50.00 60.01 70.00 80.00 81.90 81.99 82.07 82.19 82.32 82.47
gpushare100 clustering  19.99 40.00 50.00 60.01 70.00 80.00 82.15 82.23 82.30 82.45 82.59 82.70
gpushare100 packing     19.99 40.00 50.00 60.01 70.00 80.00 82.07 82.14 82.22 82.36 82.50 82.64
gpushare100 best-fit    19.99 40.00 50.00 60.01 70.00 80.00 84.44 84.52 84.60 84.73 84.88 85.00
gpushare100 fgd         19.99 40.00 50.00 60.01 70.00 80.00 86.54 86.59 86.64 86.72 86.81 86.91
multigpu50  random      20.04 39.52 49.11 56.66 62.75 68.88 75.21 78.22 81.39 87.03 89.41 90.23
multigpu50  dot-product 20.04 40.03 50.00 60.03 70.03 80.03 89.93 94.55 94.75 94.78 94.83 94.88
multigpu50  clustering  20.04 40.03 50.00 60.03 70.03 80.03 89.87 94.73 95.64 95.69 95.74 95.78
multigpu50  packing     20.04 40.03 50.00 60.03 70.03 80.03 89.93 94.80 96.07 96.11 96.15 96.19
multigpu50  best-fit    20.04 40.03 50.00 60.03 70.03 80.03 89.94 95.02 95.58 95.61 95.66 95.70
multigpu50  fgd         20.04 40.03 50.00 60.03 70.03 80.03 89.93 94.93 97.09 97.12 97.16 97.17
""")

#: Fragmented idle GPUs in percent of all.
FRAGMENTED = _curves("""
list        policy         20    40    50    60    70    80    90    95   100   110   120   130
default     random      14.59 14.89 15.00 15.44 15.85 15.89 14.49 13.98 13.55 13.06 12.70 12.50
default     dot-product 14.00 12.73 12.07 11.43 10.79 10.14  9.45  9.39  9.34  9.29  9.22  9.11
default     clustering  14.53 13.05 12.12 11.22 10.32  9.34  8.46  8.32  8.28  8.20  8.13  8.05
default     packing     14.37 12.90 11.98 11.07 10.11  9.22  8.33  8.16  8.12  8.05  8.00  7.89
default     best-fit    13.36 11.68 10.81  9.96  9.08  8.21  7.35  7.06  7.02  6.94  6.88  6.82
default     fgd         11.89  9.91  8.95  7.96  6.97  5.97  5.01  4.64  4.73  4.63  4.59  4.56
gpushare100 random      17.85 20.68 22.22 23.34 24.01 22.55 21.53 21.13 20.94 20.71 20.55 20.42
gpushare100 dot-product 16.63 17.24 17.40 17.61 17.86 18.12 18.07 17.98 17.91 17.79 17.66 17.52
gpushare100 clustering  17.92 17.88 17.87 17.87 17.88 17.84 17.74 17.67 17.60 17.46 17.34 17.24
gpushare100 packing     17.97 17.95 17.95 17.96 17.95 17.95 17.84 17.77 17.70 17.57 17.45 17.33
gpushare100 best-fit    15.16 15.27 15.33 15.48 15.54 15.62 15.52 15.45 15.37 15.25 15.10 14.98
gpushare100 fgd         13.50 13.39 13.32 13.25 13.21 13.15 13.36 13.30 13.25 13.18 13.09 13.00
multigpu50  random      15.66 14.93 14.22 13.62 13.34 13.04 12.53 12.25 12.00 11.14 10.01  9.38
multigpu50  dot-product 12.76 10.40  9.42  8.43  7.52  6.57  5.63  5.18  5.11  5.08  5.02  4.99
multigpu50  clustering  11.70  9.38  8.41  7.42  6.38  5.36  4.39  3.99  3.92  3.88  3.83  3.80
multigpu50  packing     11.69  9.41  8.38  7.38  6.39  5.37  4.33  3.86  3.69  3.65  3.61  3.58
multigpu50  best-fit    12.40  9.84  8.77  7.78  6.75  5.74  4.78  4.29  4.20  4.16  4.10  4.08
multigpu50  fgd         11.32  8.66  7.62  6.57  5.55  4.50  3.47  2.99  2.75  2.73  2.71  2.69
""")

#: Fragmented idle GPUs in percent of the idle ones.
FRAGMENTED_OF_IDLE = _curves("""
list        policy         20    40    50    60    70    80    90    95   100   110   120   130
default     random      18.25 24.83 29.99 38.41 50.99 74.62 96.73 97.71 98.44 98.85 99.07 99.12
default     dot-product 17.49 21.22 24.13 28.55 35.95 50.82 94.44 99.19 99.25 99.28 99.28 99.30
default     clustering  18.16 21.75 24.27 28.05 34.41 46.70 84.48 98.61 98.60 98.60 98.67 98.77
default     packing     17.96 21.50 23.97 27.65 33.67 46.17 83.42 98.95 99.07 99.08 99.08 99.08
default     best-fit    16.70 19.47 21.63 24.90 30.29 41.08 73.62 98.90 98.98 98.98 99.04 99.04
default     fgd         14.86 16.51 17.90 19.92 23.22 29.89 49.87 91.45 99.23 99.23 99.29 99.28
gpushare100 random      22.31 34.46 44.45 58.33 79.99 97.32 98.92 99.33 99.39 99.44 99.48 99.51
gpushare100 dot-product 20.80 28.75 34.79 44.03 59.51 90.56 99.81 99.83 99.84 99.86 99.88 99.90
gpushare100 clustering  22.39 29.81 35.73 44.69 59.56 89.24 99.43 99.46 99.48 99.53 99.61 99.67
gpushare100 packing     22.46 29.91 35.88 44.89 59.82 89.73 99.52 99.56 99.58 99.64 99.70 99.78
gpushare100 best-fit    18.94 25.46 30.67 38.72 51.79 78.19 99.80 99.83 99.84 99.87 99.90 99.93
gpushare100 fgd         16.87 22.33 26.64 33.14 44.00 65.72 99.18 99.20 99.22 99.23 99.27 99.30
multigpu50  random      19.58 24.66 27.85 31.34 35.78 41.45 49.90 55.60 63.16 84.28 94.47 95.50
multigpu50  dot-product 15.95 17.36 18.85 21.08 25.10 32.93 55.33 95.21 96.49 96.49 96.65 96.63
multigpu50  clustering  14.63 15.65 16.80 18.56 21.34 26.83 43.18 72.66 91.51 91.45 91.52 91.63
multigpu50  packing     14.61 15.70 16.77 18.44 21.37 26.85 42.59 72.53 95.52 95.50 95.49 95.46
multigpu50  best-fit    15.51 16.43 17.55 19.42 22.51 28.80 47.31 85.50 95.25 95.28 95.54 95.52
multigpu50  fgd         14.16 14.44 15.22 16.44 18.54 22.51 34.42 58.68 94.93 95.00 95.30 95.27
""")


def _pairs(table: str) -> Mapping[str, Mapping[str, tuple[float, float]]]:
    header, *rows = (line.split() for line in table.strip().splitlines())
    results = {}
    for pods, *values in rows:
        numbers = [tuple(map(float, value.split("/"))) for value in values]
        pairs = zip(header[1:], numbers, strict=True)
        results[pods] = {policy: (entry[0], entry[1]) for policy, entry in pairs}
    return results


#: Allocated GPUs in percent at 100 % load, by pod list and policy: median and standard deviation
#: of the ten seeds.
ALLOCATED_AT_100 = _pairs("""
list        random     dot-product clustering packing    best-fit   fgd
cpu050      88.98/0.25 93.06/0.18  93.48/0.33 93.53/0.30 93.58/0.12 95.00/0.11
cpu100      87.44/0.27 91.78/0.26  92.54/0.38 92.56/0.39 93.28/0.12 95.21/0.13
cpu200      83.00/0.26 87.76/0.58  89.75/0.36 90.13/0.46 92.15/0.20 94.82/0.15
cpu250      79.94/0.31 83.78/0.43  87.52/0.58 88.08/0.64 91.30/0.24 93.20/0.27
default     86.25/0.31 90.56/0.18  91.58/0.58 91.81/0.50 92.91/0.14 95.23/0.10
gpushare100 78.93/0.15 82.07/0.28  82.30/0.48 82.22/0.48 84.60/0.21 86.64/0.15
gpushare40  84.96/0.32 89.34/0.13  89.82/0.58 89.81/0.50 91.47/0.19 93.95/0.07
gpushare60  82.78/0.33 86.83/0.27  86.97/0.39 87.25/0.35 89.09/0.17 91.30/0.12
gpushare80  80.65/0.27 84.11/0.18  84.55/0.51 84.72/0.47 86.73/0.23 89.09/0.10
gpuspec10   86.31/0.24 90.25/0.37  91.94/0.67 92.23/0.62 93.12/0.20 94.70/0.18
gpuspec20   86.09/0.33 88.32/0.16  89.13/0.20 89.35/0.24 88.47/0.12 94.69/0.13
gpuspec25   85.41/0.32 85.45/0.16  86.41/0.27 86.78/0.34 85.70/0.19 93.92/0.10
gpuspec33   83.81/0.25 79.83/0.24  81.04/0.21 82.33/0.37 80.41/0.26 87.88/0.17
multigpu20  86.84/0.49 91.81/0.30  93.38/0.57 93.51/0.60 93.73/0.24 95.53/0.15
multigpu30  86.57/0.44 93.02/0.30  94.55/0.30 94.77/0.30 94.53/0.22 96.39/0.09
multigpu40  85.23/0.72 94.09/0.20  95.47/0.29 95.56/0.30 95.09/0.22 96.90/0.10
multigpu50  81.39/0.79 94.75/0.19  95.64/0.27 96.07/0.29 95.58/0.17 97.09/0.10
""")

#: One run of FGD in full: the default list, seed 42, after all pods (experiments/README.md).
#: Amounts used and there are in thousandths, parts of the idle GPUs in GPUs.
EXAMPLE = {
    "cpu_milli": (89928302, 107018000),
    "gpu_milli": (5919410, 6212000),
    "q1_lack_both": 138.43,
    "q2_lack_gpu": 85.86,
    "q3_satisfied": 1.23,
    "q4_lack_cpu": 27.28,
    "xl_satisfied": 6.06,
    "xr_lack_cpu": 33.73,
    "no_access": 0.0,
    "idle": 292.59,
    "fragmented": 291.36,
}
