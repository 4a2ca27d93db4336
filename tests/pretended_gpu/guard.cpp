// A device guard for CUDA that does nothing: with it a CPU build of torch indexes, copies and views
// tensors that say they are on cuda:0.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

c10::Device gpu() { return {c10::DeviceType::CUDA, 0}; }

struct PretendedGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;
  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device) const override { return gpu(); }
  c10::Device getDevice() const override { return gpu(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return usual(); }
  c10::Stream getNewStream(c10::Device, int) const override { return usual(); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }

 private:
  static c10::Stream usual() { return c10::Stream(c10::Stream::DEFAULT, gpu()); }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard)
