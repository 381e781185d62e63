#pragma once

namespace cairn::checkpoints {

/// Name of a torch.save file where a folder is given to hold it.
inline constexpr const char* torch_file_name = "checkpoint.pt";

} // namespace cairn::checkpoints
