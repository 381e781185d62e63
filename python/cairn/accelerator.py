"""The device that this process computes on, by one set of names for all kinds."""

import torch


class Accelerator:
    """The GPU of this rank, or the CPU where there is none."""

    def __init__(self):
        self._cuda = torch.cuda.is_available()

    def is_available(self):
        return True

    def is_synchronized_device(self):
        return not self._cuda

    def device_name(self, device_index=None):
        if not self._cuda:
            return "cpu"
        return "cuda" if device_index is None else f"cuda:{device_index}"

    def device(self, device_index=None):
        return torch.device(self.device_name(device_index))

    def set_device(self, device_index):
        if self._cuda:
            torch.cuda.set_device(device_index)

    def current_device(self):
        return torch.cuda.current_device() if self._cuda else 0

    def current_device_name(self):
        return self.device_name(self.current_device())

    def device_count(self):
        return torch.cuda.device_count() if self._cuda else 1

    def synchronize(self, device_index=None):
        if self._cuda:
            torch.cuda.synchronize(device_index)

    def communication_backend_name(self):
        return "nccl" if self._cuda else "gloo"

    def is_bf16_supported(self):
        return not self._cuda or torch.cuda.is_bf16_supported()

    def is_fp16_supported(self):
        return True

    def supported_dtypes(self):
        return [torch.float, torch.half, torch.bfloat16]

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)
        if self._cuda:
            torch.cuda.manual_seed_all(seed)

    def empty_cache(self):
        if self._cuda:
            torch.cuda.empty_cache()

    def memory_allocated(self, device_index=None):
        return torch.cuda.memory_allocated(device_index) if self._cuda else 0

    def max_memory_allocated(self, device_index=None):
        return torch.cuda.max_memory_allocated(device_index) if self._cuda else 0

    def reset_peak_memory_stats(self, device_index=None):
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(device_index)

    def pin_memory(self, tensor, align_bytes=1):
        return tensor.pin_memory() if self._cuda else tensor

    def on_accelerator(self, tensor):
        return tensor.is_cuda if self._cuda else tensor.device.type == "cpu"


_the_accelerator = None


def get_accelerator():
    """The accelerator of this process."""
    global _the_accelerator
    if _the_accelerator is None:
        _the_accelerator = Accelerator()
    return _the_accelerator
