// The order of the search's results, in place of Sphinx's, which shows only pages with all the words, and those of equal weight by the alphabet.
// A page counts by its title, by the title of a section, by the words for it in aserve/command/searched.py, and by its text; rare words count most.
const INTERNAL =
    /^(benchmarks|cparsers|native|tests)\/|^(CHANGELOG|CONTRIBUTING)$|^docs\/(conformance|design|moving-table|parser-differences|release|threads|uwsgi-names)$/;
const MOST = 20; // results; below them a page has one word of several

function rankPages(query) {
    const {docnames, filenames, titles, terms, alltitles, indexentries} = Search._index;
    const stemmer = new Stemmer();
    const stemsOf = (text) =>
        new Set(splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word)).map((word) => stemmer.stemWord(word)));
    const filesOf = (stem) => (Object.hasOwn(terms, stem) ? [terms[stem]].flat() : []);
    const lengths = new Array(docnames.length).fill(1);
    for (const files of Object.values(terms)) {
        [files].flat().forEach((file) => lengths[file]++);
    }
    const mean = lengths.reduce((sum, one) => sum + one) / lengths.length;

    const asked = stemsOf(query);
    const found = docnames.map(() => ({score: 0, section: 0, title: null, anchor: ""}));
    const weights = new Map();
    for (const stem of asked) {
        let files = filesOf(stem);
        if (!files.length && stem.length > 2) { // perhaps a word that is not typed to its end
            files = [...new Set(Object.keys(terms).filter((term) => term.startsWith(stem)).flatMap(filesOf))];
        }
        weights.set(stem, Math.log(1 + docnames.length / (files.length || 1)));
        files.forEach((file) => (found[file].score += weights.get(stem) / (0.7 + (0.3 * lengths[file]) / mean)));
    }
    const weigh = (stems) => [...stems].reduce((sum, stem) => sum + (weights.get(stem) || 0), 0);
    for (const [title, places] of Object.entries(alltitles)) {
        const stems = stemsOf(title);
        const weight = weigh(stems) * Math.sqrt([...stems].filter((stem) => asked.has(stem)).length / (stems.size || 1));
        for (const [file, anchor] of weight ? places : []) {
            const isPage = titles[file] === title;
            found[file].score += isPage ? weight : 0;
            if (weight > found[file].section) {
                Object.assign(found[file], {section: weight, title: isPage ? null : title, anchor: isPage ? "" : `#${anchor}`});
            }
        }
    }
    for (const [entry, places] of Object.entries(indexentries)) {
        const stems = [...stemsOf(entry)];
        if (stems.length && stems.every((stem) => asked.has(stem))) {
            places.forEach(([file]) => (found[file].score += 10 * stems.length));
        }
    }
    const results = found.map(({score, section, title, anchor}, file) => [
        docnames[file],
        title ? `${titles[file]} > ${title}` : titles[file],
        anchor,
        null,
        (score + section) * (INTERNAL.test(docnames[file]) ? 0.3 : 1),
        filenames[file],
        SearchResultKind.text,
    ]);
    return results.filter((result) => result[4] > 0).sort((one, other) => one[4] - other[4]).slice(-MOST); // the best comes last
}

document.addEventListener("DOMContentLoaded", () => {
    if (typeof Search !== "undefined") {
        Search._performSearch = rankPages;
    }
});
