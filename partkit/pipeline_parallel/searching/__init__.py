"""The best schedule for given costs, memory and link.

file        idea
problem     what is asked: stages on ranks, micro-batches, costs, cap, link
bound       no schedule can be faster than this
greedy      every rank does the most urgent thing that is ready; and the known schedules
exact       the same question for a constraint solver (OR-tools CP-SAT), which proves its answer
best        greedy, then exact where it is small enough; the answer with its gap and its name
"""
