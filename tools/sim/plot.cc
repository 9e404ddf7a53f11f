#include "tools/sim/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "tools/common/sizes.h"
#include "tools/sim/candidates.h"

namespace roda::simtool {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 70, kRight = 190, kTop = 40, kBottom = 50;
constexpr std::array<const char*, 12> kColours = {"#0b6e99", "#d1495b", "#3c8d40", "#8a4fa3", "#b07d00", "#455a64",
                                                  "#e07b39", "#1a1a1a", "#c2185b", "#00897b", "#5c6bc0", "#7cb342"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

// 100,000
std::string mark_text(double value) {
  std::string text = number(value);
  if (value < 1000) return text;
  text = std::to_string(std::llround(value));
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string label(double x, double y, const std::string& text, const std::string& more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + more + ">" + escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* colour, const char* width = "1") {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" stroke=\"" + colour + "\" stroke-width=\"" + width + "\"/>\n";
}

// Where a value lies between `low` and `high` on the page: whole decades around the values, from `first` to `last`.
struct Axis {
  double first = 0, last = 1, low = 0, high = 1;

  double at(double value) const { return low + (std::log10(value) - first) / (last - first) * (high - low); }
  std::vector<double> marks() const {
    std::vector<double> values;
    for (double mark = first; mark <= last; ++mark) values.push_back(std::pow(10, mark));
    return values;
  }
};

Axis axis_over(std::vector<double> values, double low, double high) {
  if (values.empty()) values.push_back(1);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Axis axis{std::floor(std::log10(*least)), std::ceil(std::log10(*most)), low, high};
  if (axis.last <= axis.first) axis.last = axis.first + 1;
  return axis;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (const double mark : x.marks()) {
    const double at = x.at(mark);
    svg += line(at, kTop, at, kHeight - kBottom, "#ddd");
    svg += label(at, kHeight - kBottom + 18, mark_text(mark), " text-anchor=\"middle\"");
  }
  for (const double mark : y.marks()) {
    const double at = y.at(mark);
    svg += line(kLeft, at, kWidth - kRight, at, "#ddd");
    svg += label(kLeft - 8, at + 4, mark_text(mark), " text-anchor=\"end\"");
  }
  return svg;
}

std::string drawn(const Curve& curve, std::size_t index, const Axis& x, const Axis& y) {
  const std::string colour = kColours[index % kColours.size()];
  std::string points, dots;
  for (const auto& [px, py] : curve.points) {
    points += number(x.at(px)) + "," + number(y.at(py)) + " ";
    const std::string told = "<title>" + escaped(curve.name) + ": " + number(px) + ", " + number(py) + "</title>";
    dots += "<circle cx=\"" + number(x.at(px)) + "\" cy=\"" + number(y.at(py)) + "\" r=\"3\" fill=\"" + colour + "\">" +
            told + "</circle>\n";
  }
  const double row = kTop + 10 + 20 * static_cast<double>(index), left = kWidth - kRight + 12;
  return "<polyline points=\"" + points + "\" fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2\"/>\n" + dots +
         line(left, row, left + 20, row, colour.c_str(), "2") + label(left + 26, row + 4, curve.name);
}

}  // namespace

void Plot::add(const std::string& name, double x, double y) {
  if (!(x > 0) || !(y > 0)) return;
  auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& some) { return some.name == name; });
  if (curve == curves.end()) curve = curves.insert(curves.end(), {name, {}});
  curve->points.emplace_back(x, y);
}

std::string to_svg(const Plot& plot) {
  std::vector<double> xs, ys;
  for (const Curve& curve : plot.curves) {
    for (const auto& [x, y] : curve.points) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  const Axis x = axis_over(xs, kLeft, kWidth - kRight);
  const Axis y = axis_over(ys, kHeight - kBottom, kTop);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " +
                    number(kHeight) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
                    label(kLeft, 24, plot.title, " font-size=\"15\"") + grid(x, y);
  for (std::size_t i = 0; i < plot.curves.size(); ++i) svg += drawn(plot.curves[i], i, x, y);
  svg += label((kLeft + kWidth - kRight) / 2, kHeight - 12, plot.x_title, " text-anchor=\"middle\"");
  const double middle = (kTop + kHeight - kBottom) / 2;
  svg += label(16, middle, plot.y_title, " text-anchor=\"middle\" transform=\"rotate(-90 16 " + number(middle) + ")\"");
  return svg + "</svg>\n";
}

void write_plot(const Plot& plot, const std::string& path) {
  std::string text = to_svg(plot);
  if (path.ends_with(".html")) {
    text = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>" + escaped(plot.title) +
           "</title>\n<body>\n" + text + "</body></html>\n";
  }
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw Failure(path + ": can't be written");
}

std::string bytes_text(double bytes) { return tools::format_size(static_cast<std::size_t>(bytes)); }

}  // namespace roda::simtool
