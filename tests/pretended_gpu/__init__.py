"""A pretended GPU: the device branch of the program runs on a CPU build of torch.

Tensors say that they are on `cuda:0` and hold a tensor of the processor, with values, or one on
`meta`, for published sizes. What is looked for: races between streams, memory that is used after it
was freed, waits of the host, copies that block, tensors of the processor among those of the GPU.
"""
