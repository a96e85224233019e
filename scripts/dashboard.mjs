// What scripts/dashboard does in the browser.
//
// Usage: node dashboard.mjs PLAYWRIGHT FOLDER IMAGES URL URL_WITH_PASSWORD PID   (IMAGES is empty for no screenshots)
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [playwright, folder, images, url, guarded, pid] = process.argv.slice(2);
const { chromium } = createRequire(`${playwright}/`)("playwright-core");

// Root needs --no-sandbox.
const browser = await chromium.launchPersistentContext(`${folder}/profile`, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
  ],
});
const problems = [];

async function open(address, settings) {
  const page = await browser.newPage();
  await page.emulateMedia({ colorScheme: settings.colorScheme ?? "light" });
  await page.setViewportSize({ width: settings.width ?? 1280, height: settings.height ?? 900 });
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      problems.push(`console: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => problems.push(`script: ${error}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) {
      problems.push(`request to ${request.url()}`);
    }
  });
  await page.goto(address);
  return page;
}

// Presses Tab until the element has the focus.
async function tabTo(page, selector) {
  for (let presses = 0; presses < 30; presses++) {
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`no Tab reaches ${selector}`);
}

const live = (page) => page.getByRole("status").filter({ hasText: /^live$/ }).waitFor();

async function check(page) {
  await live(page);
  // The example has its own clients, which ask all the time.
  await page.waitForFunction(() => parseFloat(document.querySelector("#ids").textContent) > 0);
  const issued = () => page.evaluate(() =>
    [...document.querySelectorAll("article dt")].filter((term) => term.textContent === "Ids issued")
      .map((term) => term.nextElementSibling.textContent).join(" "));
  const first = await issued();
  await page.waitForFunction((first) =>
    [...document.querySelectorAll("article dt")].filter((term) => term.textContent === "Ids issued")
      .map((term) => term.nextElementSibling.textContent).join(" ") !== first, first);

  // Names are text, whatever is in them.
  const card = page.getByRole("article", { name: '<b>invoices</b> & "more"', exact: true });
  assert.equal(await card.count(), 1);
  assert.equal(await page.locator("main b").count(), 0);
  const broken = page.getByRole("article", { name: "broken", exact: true });
  assert.match(await broken.innerText(), /failing[\s\S]*the generator is closed/);
  const leased = await page.getByRole("article", { name: "snowflake", exact: true }).innerText();
  assert.match(leased, /leased from uidring\.db[\s\S]*Lease ends in\n[\d.]+ s\nLease horizon\n[\d.]+ s/);
  assert.equal(await page.getByText("1 of 5 names failing").count(), 1);
  const uid = await page.getByRole("article", { name: "uid", exact: true }).innerText();
  assert.match(uid, /ready, default[\s\S]*7, fixed by the example/);
  assert.equal(await page.getByRole("meter", { name: "Ring" }).count(), 3);
  assert.equal(await page.getByRole("row", { name: /^http / }).count(), 1);

  const id = await page.evaluate(async () => (await (await fetch("/v1/ids")).json()).ids[0]);
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, "#id");
  await page.keyboard.type(` ${id} `);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "of");
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "uid");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const parsed = page.locator("#parsed");
  await parsed.getByText("Worker id, 22 bits").waitFor();
  const text = await parsed.innerText();
  const expected = await page.evaluate(async (id) => (await fetch(`/v1/parse/${id}`)).json(), id);
  assert.equal(expected.worker_id, 7);
  for (const part of [expected.timestamp, "\n7\n", new Intl.NumberFormat("en").format(expected.sequence)]) {
    assert.ok(text.includes(part), `${part} in ${text}`);
  }
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
}

await Promise.all(Object.entries({
  light: {},
  dark: { colorScheme: "dark" },
  narrow: { width: 360, height: 740 },
}).map(async ([name, settings]) => {
  const page = await open(url, settings);
  await check(page);
  if (images) {
    // Until the chart has a line.
    await page.waitForTimeout(40_000);
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: `${images}/dashboard-${name}.png`, fullPage: true });
  }
  if (name !== "light") await page.close();
  console.log(`${name}: fine`);
}));
assert.deepEqual(problems, []);

// What is wrong is said in place, and says what the server said; the refusal is in the console.
const page = browser.pages().find((page) => page.url() === url);
await page.getByLabel("Id", { exact: true }).fill("12 <b>x</b>");
await page.keyboard.press("Enter");
await page.getByText("the id cannot be read as").waitFor();
assert.ok(problems.every((problem) => problem.includes("400 (Bad Request)")), problems.join("\n"));

const closed = await open(guarded, {});
await closed.getByText("This server asks for a token").waitFor();
assert.equal(await closed.evaluate(() => document.activeElement.id), "token");
await closed.keyboard.type("wrong");
await closed.keyboard.press("Enter");
await closed.getByText("That was not the token.").waitFor();
await closed.keyboard.type("s3cret");
await closed.keyboard.press("Enter");
await live(closed);
await closed.getByRole("article", { name: "uid", exact: true }).waitFor();
await closed.reload();
await live(closed);
assert.ok(problems.every((problem) => /40[01] \(/.test(problem)), problems.join("\n"));
console.log("token: fine");

process.kill(Number(pid));
await page.getByRole("status").filter({ hasText: "trying again" }).waitFor();
console.log("end of the server: fine");
await browser.close();
