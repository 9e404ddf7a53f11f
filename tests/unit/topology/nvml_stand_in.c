/* Stands in for NVIDIA's management library: three GPUs, of which 0 and 1 have two NVLinks to each other and all have
 * one to a switch (GPU 2's other end is not told, as in a virtual machine). RODA_TEST_NVML=fails: init fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 3

struct nvml_device {
  int index;
};
static struct nvml_device devices[GPUS] = {{0}, {1}, {2}};
static const unsigned buses[GPUS] = {0x1b, 0x43, 0xdf};

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct memory {
  unsigned long long total, free, used;
};

int nvmlInit_v2(void) {
  const char* mode = getenv("RODA_TEST_NVML");
  return mode != NULL && strcmp(mode, "fails") == 0 ? 9 : 0;
}
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Not Supported"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = GPUS;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(struct nvml_device* device, char* name, unsigned bytes) {
  snprintf(name, bytes, "Stand-in %d", device->index);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(struct nvml_device* device, struct pci_info* pci) {
  pci->domain = 0;
  pci->bus = buses[device->index];
  pci->device = 0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(struct nvml_device* device, struct memory* memory) {
  (void)device;
  memory->total = 85520809984ull;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(struct nvml_device* device, int* major, int* minor) {
  (void)device;
  *major = 9;
  *minor = 0;
  return 0;
}
/* Links 0 and 1: to each other (0 and 1 alone). Link 2: to the switch. Link 3: inactive. No more. */
int nvmlDeviceGetNvLinkState(struct nvml_device* device, unsigned link, int* is_active) {
  if (link > 3) return 2;
  *is_active = link == 2 || (link < 2 && device->index < 2);
  return 0;
}
int nvmlDeviceGetNvLinkVersion(struct nvml_device* device, unsigned link, unsigned* version) {
  (void)device;
  (void)link;
  *version = 4;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device* device, unsigned link, struct pci_info* pci) {
  pci->domain = 0;
  pci->bus = link == 2 ? 0x05 : buses[1 - device->index];
  pci->device = 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_device* device, unsigned link, int* type) {
  (void)link;
  *type = device->index == 2 ? 255 : 2;
  return 0;
}
int nvmlDeviceGetP2PStatus(struct nvml_device* a, struct nvml_device* b, int capability, int* status) {
  (void)capability;
  *status = a->index < 2 && b->index < 2 ? 0 : 1;
  return 0;
}
