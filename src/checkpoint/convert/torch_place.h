#pragma once

namespace cairn::checkpoints {

/// What a torch.save file is called where a folder is named to hold it.
inline constexpr const char* torch_file_name = "checkpoint.pt";

} // namespace cairn::checkpoints
