/* Stands in for CUDA's driver library: two GPUs that reach each other. */
#include <stddef.h>
#include <stdio.h>

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  snprintf(name, (size_t)bytes, "CUDA stand-in %d", device);
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  snprintf(text, (size_t)bytes, "0000:%s:00.0", device == 0 ? "1B" : "43");
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)24 << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 8 : 6;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return 0;
}
