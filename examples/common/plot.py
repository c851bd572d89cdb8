"""Lines over time and bars, as a PNG. Needs Pillow (python3-pil)."""

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT, SCALE = 1100, 460, 2  # drawn larger, then reduced: smooth lines
INK, GRID = "#222222", "#dddddd"
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#e8a23d", "#7d4e9f", "#555555")


class Plot:
    def __init__(self):
        self._image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
        self._draw = ImageDraw.Draw(self._image)
        self._texts = []  # drawn last, at the size of the font: it has one

    def _line(self, points, colour, width=1):
        self._draw.line([(x * SCALE, y * SCALE) for x, y in points], fill=colour, width=int(width * SCALE), joint="curve")

    def _text(self, x, y, text, colour=INK, align="left"):
        font = ImageFont.load_default()
        left, _, right, _ = font.getbbox(text)
        x -= {"left": 0, "right": right - left, "middle": (right - left) / 2}[align]
        self._texts.append(((round(x), round(y)), text, colour))

    def _axis(self, box, top, unit):
        """Horizontal lines up to @top; what a value's height is."""
        x0, y0, x1, y1 = box
        step = nice(top / 5)
        value = 0
        while value <= top:
            y = y1 - (y1 - y0) * value / top
            self._line([(x0, y), (x1, y)], GRID)
            self._text(x0 - 6, y - 6, f"{value:,.0f}", align="right")
            value += step
        self._text(x0, y0 - 34, unit)
        return lambda v: y1 - (y1 - y0) * v / top

    def lines(self, box, unit, series):
        """@series: {name: [(seconds, value), ...]}."""
        x0, _, x1, y1 = box
        last = max((p[0] for points in series.values() for p in points), default=1) or 1
        height = self._axis(box, 1.05 * max((p[1] for points in series.values() for p in points), default=1), unit)
        step = nice(last / 6)
        for i in range(int(last / step) + 1):
            x = x0 + (x1 - x0) * i * step / last
            self._text(x, y1 + 6, f"{i * step:g} s", align="middle")
        for i, (name, points) in enumerate(series.items()):
            colour = COLOURS[i % len(COLOURS)]
            if len(points) > 1:
                self._line([(x0 + (x1 - x0) * t / last, height(v)) for t, v in points], colour, 2)
            self._line([(x0 + 14, box[1] + 10 + 16 * i), (x0 + 34, box[1] + 10 + 16 * i)], colour, 3)
            self._text(x0 + 40, box[1] + 4 + 16 * i, name)

    def bars(self, box, unit, values):
        x0, _, x1, y1 = box
        height = self._axis(box, 1.1 * max(values.values()), unit)
        width = (x1 - x0) / len(values)
        for i, (name, value) in enumerate(values.items()):
            left = x0 + i * width + width / 5
            self._draw.rectangle([left * SCALE, height(value) * SCALE, (left + 0.6 * width) * SCALE, y1 * SCALE],
                                 fill=COLOURS[i % len(COLOURS)])
            self._text(left + 0.3 * width, height(value) - 16, f"{value:.1f}", align="middle")
            self._text(left + 0.3 * width, y1 + 6, name, align="middle")

    def save(self, path):
        image = self._image.resize((WIDTH, HEIGHT), Image.LANCZOS)
        draw = ImageDraw.Draw(image)
        for at, text, colour in self._texts:
            draw.text(at, text, fill=colour, font=ImageFont.load_default())
        image.save(path)


def nice(value):
    """1, 2 or 5 times a power of ten, at least @value."""
    power = 1e-6
    while True:
        for digit in (1, 2, 5):
            if digit * power >= value:
                return digit * power
        power *= 10
