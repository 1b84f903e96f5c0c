(function () {
  "use strict";
  var picture = document.querySelector(".picture");
  var nodes = Array.prototype.slice.call(document.querySelectorAll("a.node"));
  var wires = Array.prototype.slice.call(document.querySelectorAll(".wire"));
  var open = null, opener = null;

  function light(node) {
    var id = node && node.getAttribute("data-detail");
    picture.classList.toggle("some", !!id);
    wires.forEach(function (w) {
      w.classList.toggle("on", !!id && (w.getAttribute("data-from") === id || w.getAttribute("data-to") === id));
    });
  }
  function settle() {
    light(nodes.indexOf(document.activeElement) < 0 ? opener : document.activeElement);
  }
  function close(back) {
    if (!open) { return; }
    open.classList.remove("open");
    opener.setAttribute("aria-expanded", "false");
    var was = opener;
    open = opener = null;
    if (back) { was.focus(); }
    settle();
  }
  function show(node) {
    var detail = document.getElementById(node.getAttribute("data-detail"));
    if (open === detail) { close(true); return; }
    close(false);
    open = detail;
    opener = node;
    detail.classList.add("open");
    detail.scrollTop = 0;
    node.setAttribute("aria-expanded", "true");
    detail.focus();
    settle();
  }
  function move(from, step) {
    var next = nodes[nodes.indexOf(from) + step];
    if (next) { next.focus(); }
  }

  document.documentElement.classList.add("js");
  nodes.forEach(function (node) {
    node.setAttribute("role", "button");
    node.setAttribute("aria-haspopup", "dialog");
    node.setAttribute("aria-expanded", "false");
    node.setAttribute("aria-controls", node.getAttribute("data-detail"));
    node.addEventListener("click", function (e) { e.preventDefault(); show(node); });
    node.addEventListener("focus", settle);
    node.addEventListener("blur", function () { light(opener); });
    node.addEventListener("mouseenter", function () { light(node); });
    node.addEventListener("mouseleave", settle);
    node.addEventListener("keydown", function (e) {
      if (e.ctrlKey || e.altKey || e.metaKey) { return; }
      switch (e.key) {
      case "Enter": case " ": show(node); break;
      case "ArrowDown": move(node, 1); break;
      case "ArrowUp": move(node, -1); break;
      case "Home": nodes[0].focus(); break;
      case "End": nodes[nodes.length - 1].focus(); break;
      default: return;
      }
      e.preventDefault();
    });
  });
  Array.prototype.forEach.call(document.querySelectorAll(".detail"), function (detail) {
    detail.setAttribute("role", "dialog");
    detail.querySelector(".close").addEventListener("click", function () { close(true); });
  });
  document.addEventListener("keydown", function (e) {
    if (e.key === "Escape" && open) { close(true); e.preventDefault(); }
  });
  nodes.forEach(function (node) {
    if (location.hash === node.getAttribute("href")) { show(node); }
  });
}());
