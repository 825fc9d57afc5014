"""The schedules of the literature, one file each, with the picture.

    file                  stages a rank    backward    bubble                   kept on stage s (in micro-batches)
    gpipe                 1                whole       (p-1)(F+B)               m
    one_f_one_b           1                whole       (p-1)(F+B)               min(m, p-s)
    eager_one_f_one_b     1                whole       (p-1)(F+B)               min(m, 2(p-s)-1)
    interleaved           v, looped        whole       (p-1)(F+B)/v             more than 1F1B
    breadth_first         v, looped        whole       (p-1)(F+B)/v             m
    zb_h1                 1                split       (p-1)(F+I-W)             p
    zb_h2                 1                split       (p-1)(F+I-2W)            2p-1
    zb_v                  2, V             split       0 if F=I=W               p
    dual_pipe_v           2, V             both        (p-1)(F+I-W)/2 if F=I    p+1/2
    dual_pipe             1, twice         both        (p/2-1)(F+I-W) if F=I    p+1
    chimera               1, twice         whole       p-2 slots if F=B         p/2+1 to p
    pipedream             1                whole       0, steps between         min(m, p-s), and as many versions of the weights
    pipedream_2bw         1                whole       0, steps between         min(m, p-s), and two versions of the weights
    forward_only          1                none        (p-1)F                   nothing

p ranks, m micro-batches; F, I, W and B = I + W are times on all layers of one rank.

A new schedule is a new file here, and a line in the table of `partkit.pipeline_parallel`.
"""
