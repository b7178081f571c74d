// Light, dark, or as the system has it; the choice is kept in this browser.

const CHOICES = ["system", "light", "dark"];
const KEY = "ivm.theme";

/** Lets a button change the theme, beginning with the one that was chosen. */
export function startTheme(button) {
  let chosen = localStorage.getItem(KEY) ?? "system";
  const apply = () => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = { system: "◐ System", light: "☀ Light", dark: "☾ Dark" }[chosen];
    button.setAttribute("aria-label", `Theme: ${chosen}`);
  };
  button.addEventListener("click", () => {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
    localStorage.setItem(KEY, chosen);
    apply();
    window.dispatchEvent(new Event("themechange"));
  });
  apply();
}
