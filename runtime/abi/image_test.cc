#include "runtime/abi/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

// Values of the reference implementation of XXH64.
TEST(ImageHash, KnownValues) {
  const auto hash = [](const char* text) { return gc_hash(text, strlen(text)); };
  EXPECT_EQ(hash(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(hash("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(hash("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(hash("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

TEST(ImageHash, PiecesGiveTheSame) {
  std::vector<unsigned char> bytes(1000);
  std::mt19937 random(1);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (int trial = 0; trial < 200; ++trial) {
    const size_t size = random() % bytes.size();
    gc_hash_state state;
    gc_hash_init(&state);
    for (size_t done = 0; done < size;) {
      const size_t n = std::min<size_t>(random() % 70, size - done);
      gc_hash_update(&state, &bytes[done], n);
      done += n;
    }
    EXPECT_EQ(gc_hash_final(&state), gc_hash(bytes.data(), size));
  }
}

// A header with one section, as the linker writes it.
struct Image {
  gc_image_header header;
  gc_image_section section;
  char names[8];
  unsigned char data[16];
};

Image make_image() {
  Image image{};
  memcpy(image.header.magic, GC_IMAGE_MAGIC, 8);
  image.header.version = GC_IMAGE_VERSION;
  image.header.section_count = 1;
  image.header.size = sizeof(Image);
  image.header.header_size = offsetof(Image, data);
  image.header.names_offset = offsetof(Image, names);
  image.header.names_size = 4;
  image.section = {gc_hash("norm", 4), 4, 12, gc_hash(image.data + 4, 12), 0, 4};
  memcpy(image.names, "norm", 4);
  image.header.header_checksum = gc_hash(&image, image.header.header_size);
  return image;
}

TEST(Image, ChecksHeaderAndSections) {
  const Image image = make_image();
  EXPECT_TRUE(gc_image_check_header(&image.header, sizeof(image)));
  EXPECT_TRUE(gc_image_check_section(&image.header, 0));
  EXPECT_EQ(std::string(gc_image_section_name(&image.header, 0), 4), "norm");
  EXPECT_FALSE(gc_image_check_header(&image.header, sizeof(image) - 1));
  EXPECT_FALSE(gc_image_check_header(&image.header, 10));
}

TEST(Image, EveryDamagedByteOfTheHeaderIsSeen) {
  for (size_t i = 0; i < offsetof(Image, data); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      Image image = make_image();
      reinterpret_cast<unsigned char*>(&image)[i] ^= 1 << bit;
      EXPECT_FALSE(gc_image_check_header(&image.header, sizeof(image))) << i;
    }
}

// A right checksum doesn't make wild offsets good: whoever changes a header can compute one.
TEST(Image, RightChecksumOverWildNumbers) {
  const auto accepts = [](const auto& change) {
    Image image = make_image();
    change(image);
    image.header.header_checksum = 0;
    const uint64_t readable = std::min<uint64_t>(image.header.header_size, sizeof(image));
    image.header.header_checksum = gc_hash(&image, readable);
    return gc_image_check_header(&image.header, sizeof(image)) != 0;
  };
  EXPECT_TRUE(accepts([](Image&) {}));
  EXPECT_FALSE(accepts([](Image& i) { i.header.header_size = ~0ull; }));
  EXPECT_FALSE(accepts([](Image& i) { i.header.section_count = ~0u; }));
  EXPECT_FALSE(accepts([](Image& i) { i.header.names_offset = 8; }));
  EXPECT_FALSE(accepts([](Image& i) { i.header.names_size = ~0ull; }));
  EXPECT_FALSE(accepts([](Image& i) { i.section.offset = ~0ull; }));
  EXPECT_FALSE(accepts([](Image& i) { i.section.size = 13; }));
  EXPECT_FALSE(accepts([](Image& i) { i.section.name_offset = 5; }));
  EXPECT_FALSE(accepts([](Image& i) { i.section.name_size = ~0u; }));
}

}  // namespace
