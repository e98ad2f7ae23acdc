// @ts-check
// What every page has. A screen that needs more loads its own module beside this one.
import * as actions from "./actions.js";
import * as keyboard from "./keyboard.js";
import * as live from "./live.js";
import * as palette from "./palette.js";
import * as preferences from "./preferences.js";
import * as times from "./times.js";
import * as views from "./views.js";

for (const part of [times, preferences, actions, keyboard, palette, views, live]) part.start();
document.documentElement.dataset.ready = "yes";
