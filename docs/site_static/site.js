// A section of the menu folds: all but the one with this page. Without this script all are open.
document.addEventListener("DOMContentLoaded", () => {
    for (const caption of document.querySelectorAll(".sidebar-tree p.caption")) {
        const list = caption.nextElementSibling;
        if (!list || list.tagName !== "UL") {
            continue;
        }
        const section = document.createElement("details");
        const title = document.createElement("summary");
        section.open = list.querySelector(".current") !== null;
        caption.before(section);
        title.append(caption);
        section.append(title, list);
    }
});
