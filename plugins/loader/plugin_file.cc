#include "plugins/loader/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <roda/abi/opening.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "plugins/base/unique_fd.h"

namespace roda::plugins {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr Elf64_Half kMachine = EM_PPC64;
#elif defined(__riscv)
constexpr Elf64_Half kMachine = EM_RISCV;
#else
#error "name this machine's ELF number here"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
constexpr unsigned char kByteOrder = ELFDATA2LSB;
#else
constexpr unsigned char kByteOrder = ELFDATA2MSB;
#endif

// A file that is read by ranges, each checked against its size.
class RangeReader {
 public:
  Status open(const std::string& path) {
    fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat stat {};
    if (!fd_ || ::fstat(fd_.get(), &stat) != 0) return Status::system(std::strerror(errno));
    if (!S_ISREG(stat.st_mode)) return Status::invalid("not a regular file");
    size_ = static_cast<std::uint64_t>(stat.st_size);
    return {};
  }

  bool holds(std::uint64_t offset, std::uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

  Status read(std::uint64_t offset, void* data, std::uint64_t bytes, const char* what) const {
    if (!holds(offset, bytes))
      return Status::invalid(std::string("truncated ELF file: ") + what + " lies past its end");
    if (::pread(fd_.get(), data, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) {
      return Status::invalid(std::string("unreadable ELF file: ") + what);
    }
    return {};
  }

  template <typename T>
  Status read_array(std::uint64_t offset, std::uint64_t count, std::vector<T>* out, const char* what) const {
    if (count > size_ / sizeof(T) || !holds(offset, count * sizeof(T))) {
      return Status::invalid(std::string("truncated ELF file: ") + what + " lies past its end");
    }
    out->resize(count);
    return read(offset, out->data(), count * sizeof(T), what);
  }

 private:
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

Status check_header(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Status::invalid("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kByteOrder || header.e_machine != kMachine) {
    return Status::invalid("an ELF file for another machine");
  }
  if (header.e_type != ET_DYN) return Status::invalid("an ELF file, but not a shared object");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return Status::invalid("malformed ELF file: header tables of an unknown entry size");
  }
  return {};
}

// Address of the symbol in the loaded image, and its size.
Status find_symbol(const RangeReader& file, const Elf64_Ehdr& header, const char* name, Elf64_Sym* found) {
  std::vector<Elf64_Shdr> sections;
  RODA_RETURN_IF_ERROR(file.read_array(header.e_shoff, header.e_shnum, &sections, "the section table"));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_entsize != sizeof(Elf64_Sym)) continue;
    if (section.sh_link >= sections.size()) return Status::invalid("malformed ELF file: symbols without names");
    std::vector<Elf64_Sym> symbols;
    std::vector<char> names;
    RODA_RETURN_IF_ERROR(
        file.read_array(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), &symbols, "the symbol table"));
    const Elf64_Shdr& strings = sections[section.sh_link];
    RODA_RETURN_IF_ERROR(file.read_array(strings.sh_offset, strings.sh_size, &names, "the string table"));
    const std::size_t length = std::strlen(name) + 1;
    for (const Elf64_Sym& symbol : symbols) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name > names.size() || names.size() - symbol.st_name < length)
        continue;
      if (std::memcmp(&names[symbol.st_name], name, length) != 0) continue;
      *found = symbol;
      return {};
    }
  }
  return Status::invalid(std::string("no symbol ") + name + ": not a Roda plugin");
}

// Where the address lies in the file.
Status file_offset(const RangeReader& file, const Elf64_Ehdr& header, std::uint64_t address, std::uint64_t bytes,
                   std::uint64_t* offset) {
  std::vector<Elf64_Phdr> segments;
  RODA_RETURN_IF_ERROR(file.read_array(header.e_phoff, header.e_phnum, &segments, "the segment table"));
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t inside = address - segment.p_vaddr;
    if (inside > segment.p_filesz || bytes > segment.p_filesz - inside) continue;
    *offset = segment.p_offset + inside;
    return {};
  }
  return Status::invalid("roda_plugin_info holds no data in the file: define it as an initialised constant");
}

}  // namespace

Status read_plugin_info(const std::string& path, roda_plugin_info_t* info, bool* only_by_name) {
  RangeReader file;
  RODA_RETURN_IF_ERROR(file.open(path));
  Elf64_Ehdr header{};
  if (!file.holds(0, sizeof header)) return Status::invalid("not an ELF file");
  RODA_RETURN_IF_ERROR(file.read(0, &header, sizeof header, "the file header"));
  RODA_RETURN_IF_ERROR(check_header(header));
  Elf64_Sym symbol{};
  if (only_by_name != nullptr) *only_by_name = find_symbol(file, header, RODA_ONLY_BY_NAME_SYMBOL, &symbol).ok();
  RODA_RETURN_IF_ERROR(find_symbol(file, header, RODA_PLUGIN_INFO_SYMBOL, &symbol));
  if (symbol.st_size < sizeof *info) return Status::invalid("roda_plugin_info is too short");
  std::uint64_t offset = 0;
  RODA_RETURN_IF_ERROR(file_offset(file, header, symbol.st_value, sizeof *info, &offset));
  return file.read(offset, info, sizeof *info, "roda_plugin_info");
}

}  // namespace roda::plugins
