// Data-parallel training from C++: a line is fitted to points of which every rank sees its own share. After each batch
// the ranks average their gradients, so all keep the same parameters.
//   horovodrun -np 2 build/regression
#include <roda/roda.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const roda_error& error) { throw std::runtime_error(error.message); }

roda_error no_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

// The job, as long as it is in scope.
class Job {
 public:
  Job() {
    roda_error error = no_error();
    if (roda_init(nullptr, &error) != RODA_OK) fail(error);
  }
  ~Job() { roda_shutdown(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  int rank() const { return roda_rank(); }
  int size() const { return roda_size(); }
};

roda_op in_place(std::int32_t collective, const char* name, std::vector<double>& tensor, const std::int64_t& length) {
  roda_op op{};
  op.struct_size = sizeof op;
  op.collective = collective;
  op.name = name;
  op.dtype = RODA_FLOAT64;
  op.ndim = 1;
  op.shape = &length;
  op.input = op.output = tensor.data();
  op.device = -1;
  op.op = RODA_AVERAGE;
  op.prescale = op.postscale = 1;
  op.flags = RODA_OP_WILL_WAIT;
  return op;
}

void run(const roda_op& op) {
  roda_error error = no_error();
  roda_handle handle = 0;
  if (roda_submit(&op, 1, &handle, &error) != RODA_OK) fail(error);
  const std::int32_t code = roda_wait(handle, &error);
  roda_release(handle);
  if (code != RODA_OK) fail(error);
}

struct Point {
  double x;
  double y;
};

// y = 3 x - 2, with noise.
std::vector<Point> share_of(int rank, int size) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> place(-1, 1);
  std::normal_distribution<double> noise(0, 0.05);
  std::vector<Point> mine;
  for (int i = 0; i < 960; ++i) {
    const double x = place(random);
    const Point point{x, 3 * x - 2 + noise(random)};
    if (i % size == rank) mine.push_back(point);
  }
  return mine;
}

// Slope and intercept.
std::vector<double> fit(const Job& job, const std::vector<Point>& points) {
  const std::int64_t two = 2;
  std::vector<double> line{static_cast<double>(job.rank()), 1};  // made equal by rank 0's
  run(in_place(RODA_BROADCAST, "line", line, two));
  for (int step = 0; step < 200; ++step) {
    std::vector<double> gradient{0, 0};
    for (const Point& p : points) {
      const double error = line[0] * p.x + line[1] - p.y;
      gradient[0] += 2 * error * p.x / static_cast<double>(points.size());
      gradient[1] += 2 * error / static_cast<double>(points.size());
    }
    run(in_place(RODA_ALLREDUCE, "gradient", gradient, two));
    for (std::size_t i = 0; i < line.size(); ++i) line[i] -= 0.3 * gradient[i];
  }
  return line;
}

}  // namespace

int main() try {
  const Job job;
  const std::vector<double> line = fit(job, share_of(job.rank(), job.size()));
  if (job.rank() == 0) std::printf("%d ranks: y = %.2f x %+.2f\n", job.size(), line[0], line[1]);
  return std::abs(line[0] - 3) < 0.05 && std::abs(line[1] + 2) < 0.05 ? 0 : 1;
} catch (const std::exception& wrong) {
  std::fprintf(stderr, "%s\n", wrong.what());
  return 2;
}
