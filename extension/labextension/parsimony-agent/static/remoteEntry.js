// Requests of agent cells are prose: below the magic's line, Python's colours are taken off.
// A chart below them that is wider than its cell is drawn smaller. Lab forgets the ids of displays when
// a page is loaded or a notebook opened again, so updates of their records are applied here. The buttons
// of a question are hidden when their kernel ends, and so is Lab's line for buttons whose kernel is gone,
// which has words and no element; a turn that was under way says that it was cut off.
//
// This is a container of webpack's module federation, written by hand so that nothing has to be
// built: JupyterLab and Notebook 7 call `init` with the modules that they share, then `get`.
(() => {
  const REQUEST = /^\s*%%(agent|parsimony)\b/;
  const FITTING = `.jp-OutputArea:has(.parsimony-record) {
    .jp-RenderedVegaCommon5 { margin-left: 0 }
    svg.marks { max-width: 100%; height: auto }
    .jp-OutputArea-output.lm-Panel:not(:has(*)) { display: none }
  }
  .parsimony-busy .pk-cut { display: none }`;
  const UNDER_WAY = /(pk-progress"[^>]*>)\s*<p class="pk-note">[^]*?<\/p>\s*<p class="pk-note pk-cut">/;
  const ENDED = /^(starting|restarting|autorestarting|dead|terminating)$/;
  let shared = {};

  // A module that the front end shares. It holds one version of each of these.
  const load = async name => (await Object.values(shared[name])[0].get())();

  const plugin = async () => {
    const { EditorExtensionRegistry, IEditorExtensionRegistry } = await load('@jupyterlab/codemirror');
    const { INotebookTracker } = await load('@jupyterlab/notebook');
    const { EditorView } = await load('@codemirror/view');
    const plain = { color: 'inherit !important', fontWeight: 'inherit !important', fontStyle: 'inherit !important' };
    const prose = [
      // Asked of every update, so a cell follows what is typed into its first line.
      EditorView.editorAttributes.of(({ state }) =>
        REQUEST.test(state.doc.sliceString(0, 200)) ? { class: 'parsimony-request' } : null
      ),
      EditorView.baseTheme({ '&.parsimony-request .cm-line:not(:first-child) span': plain })
    ];
    return {
      id: 'parsimony-agent:request',
      description: 'Shows the requests of agent cells as prose, their charts whole, and no dead buttons.',
      autoStart: true,
      requires: [IEditorExtensionRegistry, INotebookTracker],
      activate: (_, registry, notebooks) => {
        notebooks.widgetAdded.connect((_, { node, sessionContext, content: notebook }) => {
          const own = new Set();
          // Replaces each of our outputs for which `change` gives another.
          const redraw = change => {
            for (const { outputs } of notebook.model?.cells ?? []) {
              for (let at = 0; at < (outputs?.length ?? 0); at++) {
                const { data, metadata } = outputs.get(at);
                const changed = metadata.parsimony?.display && change(metadata.parsimony.display, data, metadata);
                if (changed) outputs.set(at, { output_type: 'display_data', ...changed });
              }
            }
          };
          const end = () => {
            node.classList.remove('parsimony-busy');
            for (const each of node.querySelectorAll('.parsimony-record-controls')) each.style.display = 'none';
            redraw((_, data, metadata) => {
              const html = `${data['text/html'] ?? ''}`;
              if (!UNDER_WAY.test(html)) return null;
              return { data: { ...data, 'text/html': html.replace(UNDER_WAY, '$1<p class="pk-note">') }, metadata };
            });
          };
          sessionContext.statusChanged.connect((_, status) => {
            if (ENDED.test(status)) end();
          });
          // Restarted by another client, a kernel is back before Lab hears that it starts: its farewell comes.
          sessionContext.iopubMessage.connect((_, { header, parent_header, content }) => {
            const id = content.metadata?.parsimony?.display; // of our records alone
            // A turn is under way until its cell ends; widgets make the kernel idle meanwhile, for a moment.
            if (id) node.classList.add('parsimony-busy');
            if (content.execution_state === 'idle' && parent_header.msg_type === 'execute_request') {
              node.classList.remove('parsimony-busy');
            }
            if (header.msg_type === 'shutdown_reply') end();
            if (header.msg_type === 'display_data') own.add(id);
            if (header.msg_type === 'update_display_data' && id && !own.has(id)) {
              redraw(known => known === id && { data: content.data, metadata: content.metadata });
            }
          });
        });
        document.head.appendChild(document.createElement('style')).textContent = FITTING;
        registry.addExtension({
          name: 'parsimony-agent-request',
          factory: () => EditorExtensionRegistry.createImmutableExtension(prose)
        });
      }
    };
  };

  (window._JUPYTERLAB ??= {})['parsimony-agent'] = {
    init: scope => { shared = scope; },
    get: async () => {
      const exported = { __esModule: true, default: await plugin() };
      return () => exported;
    }
  };
})();
