// The form in which users log in.

import { Api } from "./api.js";
import { h, write } from "./dom.js";

/**
 * @param {string} reason why it is asked for again
 * @param {(api: Api) => Promise<void>} enter called with who has logged in
 */
export function loginForm(reason, enter) {
  const user = h("input", { name: "user", autocomplete: "username", autocapitalize: "none" });
  const secret = h("input", { name: "secret", type: "password", autocomplete: "current-password", required: true });
  const said = h("p", { role: "status", class: "bad", text: reason });
  const button = h("button", { class: "main", text: "Log in" });
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    write(said, "");
    try {
      await enter(await Api.login(user.value, secret.value));
    } catch (error) {
      write(said, error.message);
      secret.select();
    } finally {
      button.disabled = false;
    }
  };
  return h("form", { class: "login", onsubmit: submit },
    h("h1", { text: "Log in" }),
    h("label", {}, "User", user),
    h("label", {}, "Password", secret),
    h("p", { class: "quiet", text: "With a token: leave the user empty, and paste it as the password." }),
    said, button);
}
