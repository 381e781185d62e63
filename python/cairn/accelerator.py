"""The device that this process computes on, by one set of names for all kinds."""

from __future__ import annotations

from typing import Optional

import torch


class Accelerator:
    """The GPU of this rank, or the CPU where there is none."""

    def __init__(self) -> None:
        self._cuda = torch.cuda.is_available()

    def is_available(self) -> bool:
        """True: there is always a CPU."""
        return True

    def is_synchronized_device(self) -> bool:
        """True where work is done when a call returns."""
        return not self._cuda

    def device_name(self, device_index: Optional[int] = None) -> str:
        """"cpu", "cuda" or "cuda:1"."""
        if not self._cuda:
            return "cpu"
        return "cuda" if device_index is None else f"cuda:{device_index}"

    def device(self, device_index: Optional[int] = None) -> torch.device:
        """The device as torch names it."""
        return torch.device(self.device_name(device_index))

    def set_device(self, device_index: Optional[int]) -> None:
        """Makes a GPU the current one."""
        if self._cuda:
            torch.cuda.set_device(device_index)

    def current_device(self) -> int:
        """The number of the current device."""
        return torch.cuda.current_device() if self._cuda else 0

    def current_device_name(self) -> str:
        """The name of the current device."""
        return self.device_name(self.current_device())

    def device_count(self) -> int:
        """The number of devices that this process sees."""
        return torch.cuda.device_count() if self._cuda else 1

    def synchronize(self, device_index: Optional[int] = None) -> None:
        """Waits for all work of the device."""
        if self._cuda:
            torch.cuda.synchronize(device_index)

    def communication_backend_name(self) -> str:
        """"nccl" or "gloo"."""
        return "nccl" if self._cuda else "gloo"

    def is_bf16_supported(self) -> bool:
        """True where bf16 can be computed in."""
        return not self._cuda or torch.cuda.is_bf16_supported()

    def is_fp16_supported(self) -> bool:
        """True where fp16 can be computed in."""
        return True

    def supported_dtypes(self) -> list[torch.dtype]:
        """The types that can be computed in."""
        return [torch.float, torch.half, torch.bfloat16]

    def manual_seed(self, seed: int) -> None:
        """Seeds the random numbers."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seeds the random numbers of all devices."""
        torch.manual_seed(seed)
        if self._cuda:
            torch.cuda.manual_seed_all(seed)

    def empty_cache(self) -> None:
        """Gives unused memory back to the device."""
        if self._cuda:
            torch.cuda.empty_cache()

    def memory_allocated(self, device_index: Optional[int] = None) -> int:
        """Bytes that tensors have on the device."""
        return torch.cuda.memory_allocated(device_index) if self._cuda else 0

    def max_memory_allocated(self, device_index: Optional[int] = None) -> int:
        """The most bytes that tensors have had on the device."""
        return torch.cuda.max_memory_allocated(device_index) if self._cuda else 0

    def reset_peak_memory_stats(self, device_index: Optional[int] = None) -> None:
        """Begins to count the most bytes anew."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(device_index)

    def pin_memory(self, tensor: torch.Tensor, align_bytes: int = 1) -> torch.Tensor:
        """A copy in page-locked memory, where there is a GPU."""
        return tensor.pin_memory() if self._cuda else tensor

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """True for a tensor on the device."""
        return tensor.is_cuda if self._cuda else tensor.device.type == "cpu"


_the_accelerator = None


def get_accelerator() -> Accelerator:
    """The accelerator of this process."""
    global _the_accelerator
    if _the_accelerator is None:
        _the_accelerator = Accelerator()
    return _the_accelerator
