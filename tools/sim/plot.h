// Curves on logarithmic axes, as one SVG that needs nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace roda::simtool {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // positive
};

struct Plot {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<Curve> curves;

  void add(const std::string& name, double x, double y);
};

std::string to_svg(const Plot& plot);

// SVG, or one HTML page with the SVG in it when the name ends with .html. Failure when it can't be written.
void write_plot(const Plot& plot, const std::string& path);

std::string bytes_text(double bytes);  // "256 MiB"

}  // namespace roda::simtool
