/* Stands for Upreel's programs in check_setup.py, which compiles it twice.
 *
 *   upreel-cli              says its version
 *   upreel --write FILE     writes its version
 *   upreel --sleep SECONDS  is there for so long
 *   upreel --hold FILE      keeps others from FILE until somebody ends it
 *   upreel --window         has a window and ends when that is closed
 */
#include <stdio.h>
#include <windows.h>

static LRESULT CALLBACK hear(HWND window, UINT message, WPARAM word, LPARAM more)
{
    if (message == WM_DESTROY)
        PostQuitMessage(0);
    return DefWindowProcW(window, message, word, more);
}

static int open_window(HINSTANCE program)
{
    WNDCLASSW kind = {.lpfnWndProc = hear, .hInstance = program, .lpszClassName = L"Stub"};
    MSG message;
    RegisterClassW(&kind);
    if (!CreateWindowExW(0, L"Stub", L"Upreel", WS_OVERLAPPEDWINDOW | WS_VISIBLE, 0, 0, 300, 200,
                         NULL, NULL, program, NULL))
        return 1;
    while (GetMessageW(&message, NULL, 0, 0) > 0)
        DispatchMessageW(&message);
    return 0;
}

static int write_version(const wchar_t *name)
{
    FILE *file = _wfopen(name, L"w");
    if (!file)
        return 1;
    fputs(VERSION, file);
    return fclose(file);
}

int wmain(int count, wchar_t **words)
{
    if (count == 2 && !wcscmp(words[1], L"--window"))
        return open_window(GetModuleHandleW(NULL));
    if (count == 3 && !wcscmp(words[1], L"--write"))
        return write_version(words[2]);
    if (count == 3 && !wcscmp(words[1], L"--sleep"))
        Sleep(1000 * (DWORD)_wtoi(words[2]));
    else if (count == 3 && !wcscmp(words[1], L"--hold")) {
        if (CreateFileW(words[2], GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL) ==
            INVALID_HANDLE_VALUE)
            return 1;
        Sleep(INFINITE);
    } else
        puts(VERSION);
    return 0;
}
