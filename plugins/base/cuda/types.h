// The few types and constants of the CUDA driver API that are used here, by our own names. The driver keeps them stable
// for good; tests/doubles/cuda/agreement.cc compares them with cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roda::cuda {

// CUresult, as a plain number: a newer driver may return one that this file does not know.
using Result = int;
using Ordinal = int;  // CUdevice
using Address = unsigned long long;
using Context = struct ContextObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using HostFunction = void (*)(void* argument);

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kUnsupportedPtx = 222;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureImplicit = 906;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kCapabilityMajor = 75;  // of a device, as the next two
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kRdmaWritesOrdering = 118;  // from CUDA 11.3 on
inline constexpr int kOrderedForOwner = 100;     // or for more
inline constexpr unsigned kMemoryHost = 1;
inline constexpr unsigned kMemoryDevice = 2;
inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureGlobal = 0;  // modes
inline constexpr int kCaptureRelaxed = 2;

struct Uuid {
  unsigned char bytes[16];
};

}  // namespace roda::cuda
