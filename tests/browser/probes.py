"""What a person would see and reach, measured in the page."""

from typing import Any

from playwright.sync_api import Locator

from .lab import Lab

# The contrast that WCAG 2.2 asks of text.
READABLE = 4.5
_CONTRASTS = """root => {
    const numbers = text => text.match(/-?[\\d.]+(e-?\\d+)?%?/g).map(parseFloat);
    const parse = text => {
        const parts = numbers(text.replace(/^color\\(srgb/, '('));
        const scale = text.startsWith('color(') ? 255 : 1;
        return [...parts.slice(0, 3).map(part => part * scale), parts.length > 3 ? parts[3] : 1];
    };
    const over = (top, under) => {
        const alpha = top[3] + under[3] * (1 - top[3]);
        const mixed = [0, 1, 2].map(
            at => (top[at] * top[3] + under[at] * under[3] * (1 - top[3])) / (alpha || 1)
        );
        return [...mixed, alpha];
    };
    const ground = element => {
        let seen = [0, 0, 0, 0];
        for (let each = element; each !== null && seen[3] < 1; each = each.parentElement) {
            seen = over(seen, parse(getComputedStyle(each).backgroundColor));
        }
        return over(seen, [255, 255, 255, 1]);
    };
    const luminance = colour => {
        const [red, green, blue] = colour.slice(0, 3).map(part => part / 255).map(
            part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
        );
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const measured = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const text = walker.currentNode.data.trim();
        const drawn = element.closest('svg');
        if (text === '' || element.closest('style, script') || !element.checkVisibility()
                || (drawn && !drawn.matches('.marks'))) {
            continue;
        }
        const under = ground(element);
        const look = getComputedStyle(element);
        const ink = over(parse(drawn ? look.fill : look.color), under);
        const [dark, bright] = [luminance(ink), luminance(under)].sort((a, b) => a - b);
        measured.push({ text: text.slice(0, 60), ratio: (bright + 0.05) / (dark + 0.05) });
    }
    return measured;
}"""

_OVERFLOWING = """root => {
    const scrolls = element => ['auto', 'scroll'].includes(getComputedStyle(element).overflowX);
    const room = root.getBoundingClientRect().right + 1;
    const found = [];
    for (const each of root.querySelectorAll('*')) {
        const holder = each.parentElement.closest('pre, .pk-scroll');
        const drawn = each.closest('svg, .jp-RenderedVegaCommon5');
        if ((drawn && !each.matches('.marks')) || !each.checkVisibility()) {
            continue;
        }
        const told = `${each.tagName} ${each.className} ${each.textContent.slice(0, 60)}`;
        if (holder === null && each.getBoundingClientRect().right > room) {
            found.push(`beyond the edge: ${told}`);
        }
        if (scrolls(each) && each.scrollWidth > each.clientWidth + 1
                && !each.matches('pre, .pk-scroll')) {
            found.push(`scrolls: ${told}`);
        }
    }
    return found;
}"""

_FOCUSED = """() => {
    const element = document.activeElement;
    const look = getComputedStyle(element);
    const inOutput = element.closest('.jp-OutputArea') !== null;
    return {
        inOutput,
        name: inOutput || element.matches('button')
            ? (element.ariaLabel || element.textContent || element.placeholder).trim()
            : element.className,
        tag: element.tagName.toLowerCase(),
        ring: look.outlineStyle !== 'none' || look.boxShadow !== 'none',
    };
}"""


# Where the cell's prompt and the first line of what is read first stand, in every frame.
_WATCH = """cell => {
    window.frames_seen = [];
    const look = () => {
        const seen = ['.jp-InputPrompt', '.jp-OutputArea-output p'].map(
            each => cell.querySelector(each)?.getBoundingClientRect().top
        );
        if (seen[1] !== undefined) window.frames_seen.push(seen);
        requestAnimationFrame(look);
    };
    look();
}"""

# How long after it was run a new cell shows something, in milliseconds.
_FIRST_OUTPUT = """async () => {
    const app = window.jupyterapp, panel = app.shell.currentWidget;
    const output = panel.content.activeCell.outputArea.node;
    const shown = new Promise(resolve => new MutationObserver((_, observer) => {
        if (output.textContent.trim() === '') return;
        observer.disconnect();
        resolve(performance.now());
    }).observe(output, { childList: true, subtree: true, characterData: true }));
    const began = performance.now();
    app.commands.execute('notebook:run-cell');
    return await shown - began;
}"""


def contrasts(area: Locator) -> list[tuple[float, str]]:
    """The contrast of each text that is seen in ``area`` to its ground, lowest first."""
    measured: list[dict[str, Any]] = area.evaluate(_CONTRASTS)
    return sorted((each["ratio"], each["text"]) for each in measured)


def overflowing(area: Locator) -> list[str]:
    """What in ``area`` is cut off or scrolls sideways, other than code, output and tables."""
    found: list[str] = area.evaluate(_OVERFLOWING)
    return found


def watch_frames(cell: Locator) -> None:
    """Take down from now on where the cell and its first line stand, frame by frame."""
    cell.evaluate(_WATCH)


def moved(cell: Locator) -> tuple[int, float]:
    """How many frames were seen, and by how many pixels the prompt or the first line moved."""
    frames: list[list[float]] = cell.evaluate("() => window.frames_seen")
    return len(frames), max(max(tops) - min(tops) for tops in zip(*frames, strict=True))


def seconds_to_first_output(lab: Lab, source: str) -> float:
    """Run ``source`` in the one cell of a new notebook; the seconds until it shows something."""
    lab.new_notebook("Parsimony Agent")
    lab.page.locator(".jp-CodeCell .cm-content").click()
    lab.page.keyboard.insert_text(source)
    took: float = lab.page.evaluate(_FIRST_OUTPUT)
    lab.wait_until_idle()
    return took / 1000


def focused(lab: Lab) -> dict[str, Any]:
    """The element that has the focus: ``name``, ``tag``, ``ring`` and whether ``inOutput``."""
    found: dict[str, Any] = lab.page.evaluate(_FOCUSED)
    return found
