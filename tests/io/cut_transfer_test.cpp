#include "io/cut_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::io::detail::cut_transfer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t block = 8192;

TEST(CutTransfer, AlignedOnesAreBlocks) {
  EXPECT_THAT(cut_transfer(4096, 0, 0, block), IsEmpty());
  EXPECT_THAT(cut_transfer(4096, 0, 4096, block), ElementsAre(Piece{0, 4096}));
  EXPECT_THAT(
      cut_transfer(4096, 40960, 20480, block),
      ElementsAre(Piece{0, 8192}, Piece{8192, 8192}, Piece{16384, 4096}));
}

TEST(CutTransfer, WhatSticksOutIsApart) {
  EXPECT_THAT(
      cut_transfer(4096, 0, 8192 + 4096 + 5, block),
      ElementsAre(Piece{0, 8192}, Piece{8192, 4096}, Piece{12288, 5}));
  EXPECT_THAT(cut_transfer(0, 0, 5, block), ElementsAre(Piece{0, 5}));
  EXPECT_THAT(
      cut_transfer(4096 + 4000, 4000, 96 + 8192 + 7, block),
      ElementsAre(Piece{0, 96}, Piece{96, 8192}, Piece{8288, 7}));
  EXPECT_THAT(cut_transfer(4000, 4000, 50, block), ElementsAre(Piece{0, 50}));
}

TEST(CutTransfer, MemoryAndFileThatNeverMeetAreBlocks) {
  EXPECT_THAT(
      cut_transfer(64, 0, 8192 + 5, block),
      ElementsAre(Piece{0, 8192}, Piece{8192, 5}));
}

TEST(CutTransfer, CoversEveryByteOnce) {
  for (const std::size_t address : {0, 1, 64, 4095, 4096, 5000}) {
    for (const std::size_t offset : {0, 1, 64, 4095, 8192, 9096}) {
      for (const std::size_t size : {1, 95, 4096, 4097, 8192, 30000}) {
        std::size_t at = 0;
        for (const Piece& piece : cut_transfer(address, offset, size, block)) {
          EXPECT_EQ(piece.begin, at);
          EXPECT_GT(piece.size, 0U);
          EXPECT_LE(piece.size, block);
          at += piece.size;
        }
        EXPECT_EQ(at, size);
      }
    }
  }
}

} // namespace
} // namespace cairn::io::detail::cut_transfer_test
